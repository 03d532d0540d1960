import re

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.runs import content_key
from kokoro_nb.reporting.selection import read_notebook
from kokoro_nb.reporting.sweep_grid import expand, read_spec
from tests.reporting.sweep.conftest import make_notebook, spec_of

SPEC = """
notebook = "01"
[grid]
number = [1, 2]
backend = ["eager", "coreml", "tvm"]
[fixed]
folder = "x"
[requires]
backend.coreml = "coreml"
backend.tvm = ["tvm", "cuda"]
"""


def test_every_combination_is_a_cell_once(tmp_path):
    cells = expand(spec_of(tmp_path, SPEC), make_notebook(tmp_path))
    values = [(cell.run.parameters["number"], cell.run.parameters["backend"]) for cell in cells]
    assert values == [(number, backend) for number in (1, 2) for backend in ("eager", "coreml", "tvm")]
    assert all(cell.run.parameters["folder"] == "x" for cell in cells)
    assert len({cell.run.notebook for cell in cells}) == len({cell.run.key for cell in cells}) == 6
    assert cells[1].label == "01_tiny: number 1, backend coreml"
    assert cells[1].run.notebook.startswith("01_tiny-1-coreml-")
    assert cells[0].takes_out_dir
    (cell,) = expand(spec_of(tmp_path, 'notebook = "01"'), make_notebook(tmp_path))
    assert (cell.label, cell.run.parameters, cell.resources) == ("01_tiny", {}, set())


def test_a_cell_is_keyed_as_a_run_is(tmp_path):
    folder = make_notebook(tmp_path)
    (cell,) = expand(spec_of(tmp_path, 'notebook = "01"\n[fixed]\nnumber = 3'), folder)
    notebook = read_notebook(folder / "01_tiny.ipynb")
    assert cell.run.key == content_key(notebook, {"number": 3})
    make_notebook(tmp_path, "1 + 1")
    (changed,) = expand(spec_of(tmp_path, 'notebook = "01"\n[fixed]\nnumber = 3'), folder)
    assert changed.run.notebook == cell.run.notebook
    assert changed.run.key != cell.run.key


def test_a_value_needs_its_resources_and_a_list_those_of_its_items(tmp_path):
    def needed(text):
        return [cell.resources for cell in expand(spec_of(tmp_path, text), make_notebook(tmp_path))]

    assert needed(SPEC)[:3] == [set(), {"coreml"}, {"tvm", "cuda"}]
    listed = SPEC.replace('["eager", "coreml", "tvm"]', '[["eager", "coreml"], ["tvm"], []]')
    assert needed(listed)[:3] == [{"coreml"}, {"tvm", "cuda"}, set()]
    text = 'notebook = "01"\n[grid]\nnumber = [3, true]\n[requires]\nnumber.3 = "three"\nnumber.true = "truth"'
    assert needed(text) == [{"three"}, {"truth"}]


def test_a_notebook_takes_what_it_declares_and_no_cell_comes_twice(tmp_path):
    folder = make_notebook(tmp_path)
    make_notebook(tmp_path, parameters="number = 0", name="02_other")
    cells = expand(spec_of(tmp_path, SPEC.replace('"01"', '["01", "02"]')), folder)
    assert [cell.notebook for cell in cells].count("01_tiny") == 6
    other = [cell for cell in cells if cell.notebook == "02_other"]
    assert [cell.run.parameters for cell in other] == [{"number": 1}, {"number": 2}]
    assert not any(cell.takes_out_dir for cell in other)


@pytest.mark.parametrize("value", ["../up", "ü" * 300, "", "."])
def test_a_name_is_the_name_of_a_folder_whatever_the_value(tmp_path, value):
    (cell,) = expand(spec_of(tmp_path, f'notebook = "01"\n[grid]\nfolder = ["{value}"]'), make_notebook(tmp_path))
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,98}", cell.run.notebook)


WHOLE = """
notebook = ["01", "02_other"]
retries = 2
timeout = 30.5
[grid]
backend = ["eager", "coreml"]
buckets = [[3, 10], [45]]
[fixed]
weights = "narrow"
[requires]
backend.coreml = "coreml"
backend.onnxruntime-qnn = ["qnn", "licence"]
weights.narrow = "small"
"""


def test_a_whole_sweep_is_read_and_what_is_not_said_is_left_at_once_and_without_limit(tmp_path):
    spec = spec_of(tmp_path, WHOLE)
    assert (spec.name, spec.notebooks, spec.retries, spec.timeout) == ("spec", ("01", "02_other"), 2, 30.5)
    assert spec.grid == {"backend": ("eager", "coreml"), "buckets": ([3, 10], [45])}
    assert spec.fixed == {"weights": "narrow"}
    assert spec.requires == {
        "backend": {"coreml": ("coreml",), "onnxruntime-qnn": ("qnn", "licence")},
        "weights": {"narrow": ("small",)},
    }
    spec = spec_of(tmp_path, 'notebook = "01"')
    assert (spec.notebooks, spec.grid, spec.fixed, spec.requires) == (("01",), {}, {}, {})
    assert (spec.retries, spec.timeout) == (0, None)
    with pytest.raises(InputError, match="There is no sweep at"):
        read_spec(tmp_path / "none.toml")


BAD = {
    "no TOML": ("notebook = ", "cannot be read as TOML"),
    "unknown key": ('notebook = "01"\nworkers = 2', "no 'workers'; it may have notebook, grid"),
    "no notebook": ("[grid]\nnumber = [1]", "'notebook' of a sweep has to be"),
    "grid that is no table": ('notebook = "01"\ngrid = 3', "begin it with [grid]"),
    "one value in the grid": ('notebook = "01"\n[grid]\nnumber = 3', "a single value goes into [fixed]"),
    "a value twice": ('notebook = "01"\n[grid]\nnumber = [3, 4, 3]', "has the value 3 twice; leave one out"),
    "grid and fixed": ('notebook = "01"\n[grid]\nnumber = [3]\n[fixed]\nnumber = 4', "leave it out of one"),
    "a date": ('notebook = "01"\n[fixed]\nnumber = 2026-11-22', "value of no plain kind"),
    "out_dir": ('notebook = "01"\n[fixed]\nout_dir = "x"', "choose the folder with --out"),
    "requires without parameter": ('notebook = "01"\n[requires]\nbackend.a = "a"', "neither in [grid] nor in [fixed]"),
    "requires without value": ('notebook = "01"\n[fixed]\nb = 1\n[requires]\nb = "a"', "needs a value of 'b'"),
    "fewer than no retries": ('notebook = "01"\nretries = -1', "a whole number, 0 or more, not -1"),
    "no time at all": ('notebook = "01"\ntimeout = 0', "a number of seconds above 0, not 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_sweep_is_reported_in_one_sentence(tmp_path, name):
    text, told = BAD[name]
    with pytest.raises(InputError) as caught:
        spec_of(tmp_path, text)
    message = str(caught.value)
    assert told in message
    assert message.endswith(".")
    assert "\n" not in message
