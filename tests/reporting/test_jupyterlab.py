"""The explorer in a real JupyterLab, in a real browser without a network: sorted, chosen, followed, by keyboard too."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

MADE = """
import numpy as np
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.reporting.explorer import collect, widget_class
from kokoro_nb.traces.trace import Operator, Recorder

source, nothing = np.random.default_rng(0), np.empty(0)
names = [f"decode.{n // 30}.resblocks.{n % 30}.conv1:add" for n in range(1500)]
operators = [Operator(name, "aten.add.Tensor", name[:-4], (names[n - 1] if n else "input:x",), (1, 24, 40), "float32")
             for n, name in enumerate(names)]
recorder = Recorder(operators, "full")
for n, name in enumerate(names):
    value = (1 + n % 70) * source.normal(size=(1, 24, 40)).astype("float32")
    if n in (700, 701):
        value[0, 5:8] = np.nan
    recorder.add(name, value)
trace = recorder.trace("onnxruntime", {}, {}, "by hand")
errors = [LocalError(one, 1e-7, 3.0, np.inf if n == 700 else source.random(), nothing, nothing, nothing, ())
          for n, one in enumerate(operators)]
"""


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """Return a JupyterLab's address, the token and its folder; it knows nothing of the user's settings or kernels."""
    home, root = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("root")
    settings = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    token, port = secrets.token_hex(8), _free_port()
    folders = dict.fromkeys(("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"), str(home))
    folders |= {"JUPYTER_PATH": str(Path(sys.prefix) / "share" / "jupyter"), "JUPYTER_RUNTIME_DIR": str(home / "run")}
    folders |= {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "spaces")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1", "--allow-root"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    command += [f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True"]
    command += ["--LabApp.extension_manager=readonly"]
    address = f"http://127.0.0.1:{port}"
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env={**os.environ, **folders}, stdout=log, stderr=log)
        try:
            _wait_for(f"{address}/api?token={token}", server, home / "log")
            yield address, token, root
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="module")
def explored(lab, browser):
    """Return a page with the explorer of 1500 operators, run once, and what it asked for beyond this machine."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [new_code_cell(MADE), new_code_cell("widget_class()(collect(trace, errors=errors))")]
    nbformat.write(new_notebook(cells=cells, metadata=kernel), lab[2] / "made.ipynb")
    page, beyond = _opened(browser, lab, "made.ipynb")
    _run_all(page)
    return page, beyond


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(address, server, log):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            return urlopen(address, timeout=2).read()
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
    raise TimeoutError(log.read_text())


def _opened(browser, lab, name):
    """Open a notebook and return the page, and the addresses beyond this machine that were asked for."""
    address, token, _ = lab
    page, beyond = browser.new_page(viewport={"width": 1360, "height": 1000}), []
    page.set_default_timeout(60_000)

    def only_here(route):
        if route.request.url.startswith((address, "data:", "blob:")):
            return route.continue_()
        beyond.append(route.request.url)
        return route.abort()

    page.route("**/*", only_here)
    page.goto(f"{address}/lab/tree/{name}?token={token}&reset")
    page.wait_for_function("window.jupyterapp && window.jupyterapp.restored.then(() => true)")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    return page, beyond


def _in_theme(page, theme):
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    page.wait_for_selector(f"body[data-jp-theme-light={str('Light' in theme).lower()}]", state="attached")


def _run_all(page):
    page.wait_for_function(
        "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", timeout=60_000
    )
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_selector(".knb-rows tbody tr", timeout=60_000, state="attached")


def _column(page, head):
    heads = [text.strip() for text in page.locator(".knb-live thead th").all_inner_texts()]
    return page.locator(f".knb-rows tbody tr td:nth-child({heads.index(head) + 1})").all_inner_texts()


def test_choose_press_and_follow(explored):
    page, beyond = explored
    assert "1,500 operators, 1,500 captured, 0 not captured, 2 not finite, 1 wrong" in page.inner_text(".knb-live")
    page.get_by_role("button", name="rms", exact=True).click()
    sizes = [float(text) for text in _column(page, "rms")]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 10
    page.get_by_role("button", name="× rounding").click()
    assert _column(page, "× rounding")[0] == "∞"
    assert _column(page, "verdict")[0].lower() == "fail"
    page.locator(".knb-rows tbody tr").first.click()
    page.wait_for_selector(".knb-live .knb-detail h4:has-text('decode.23.resblocks.10.conv1:add')")
    assert page.locator(".knb-live .knb-channels img").count() == 3
    assert "Wholly non-finite: 5, 6, 7." in page.inner_text(".knb-live .knb-detail")
    assert page.evaluate("document.querySelector('.knb-live img.knb-histogram').naturalWidth") == 720
    page.locator(".knb-live .knb-neighbours").get_by_role("button", name="decode.23.resblocks.11.conv1:add").click()
    page.wait_for_selector(".knb-live .knb-detail h4:has-text('resblocks.11')")
    assert page.locator(".knb-live tr[aria-current] button").inner_text() == "decode.23.resblocks.11.conv1:add"
    assert not page.locator(".knb-still").is_visible(), "one form at a time"
    assert beyond == [], "everything came from this machine"


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_accessible_and_readable_in_either_theme(explored, violations, theme):
    page, _ = explored
    _in_theme(page, theme)
    page.get_by_label("Filter by name").fill("")
    page.get_by_label("Which operators").select_option("not finite")
    page.locator(".knb-rows tbody tr").first.click()
    page.wait_for_selector(".knb-live .knb-detail h4:has-text('decode.23.resblocks.1')")
    assert violations(page, ".knb-live") == []
    page.evaluate("document.querySelector('.knb-live').insertAdjacentHTML('beforeend', '<img id=bad src=x>')")
    assert violations(page, ".knb-live") == ["image-alt"], "one would be seen"
    page.evaluate("document.querySelector('#bad').remove()")


def test_filter_and_keyboard(explored):
    page, _ = explored
    page.get_by_label("Which operators").select_option("all operators")
    page.get_by_label("Filter by name").fill("decode.7. resblocks.3.")
    assert _column(page, "operator") == ["decode.7.resblocks.3.conv1:add"]
    page.get_by_label("Filter by name").fill("")
    page.get_by_label("Which operators").select_option("not finite")
    assert page.inner_text(".knb-live .knb-count") == "2 of 1,500 shown"
    page.locator(".knb-rows tbody button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    last = page.locator(".knb-rows tbody button").last.inner_text()
    page.wait_for_selector(f".knb-live .knb-detail h4:has-text('{last}')")
    page.get_by_label("Which operators").select_option("all operators")
    assert 0 < page.locator(".knb-rows tbody tr").count() < 1500, "the rest is drawn when one scrolls to it"
    page.locator(".knb-live .knb-rows").evaluate("one => { one.scrollTop = one.scrollHeight }")
    page.wait_for_function("document.querySelectorAll('.knb-rows tbody tr').length > 120")


def test_a_saved_notebook_shows_the_form_without_a_kernel(lab, browser, explored):
    address, token, _ = lab
    page, _ = explored
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    about = {"headers": {"Authorization": f"token {token}"}}
    for kernel in json.load(urlopen(Request(f"{address}/api/kernels", **about))):
        urlopen(Request(f"{address}/api/kernels/{kernel['id']}", method="DELETE", **about))
    page.close()
    again, _ = _opened(browser, lab, "made.ipynb")
    again.wait_for_selector(".knb-still", state="visible")
    again.get_by_text("model not found").wait_for(state="attached")
    assert not again.get_by_text("model not found").is_visible()
    assert again.locator(".knb-live").count() == 0
    again.locator(".knb-still summary").first.click()
    assert again.locator(".knb-still .knb-channels").first.is_visible()
    assert again.locator(".knb-still img.knb-histogram").first.is_visible()
