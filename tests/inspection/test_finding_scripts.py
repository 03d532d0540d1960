"""Scripts for findings: of a node, structural findings without one, and the reason where there is none."""

import numpy as np

import kokoro_nb as nb
from kokoro_nb.inspection.judged_run import SHOWN
from kokoro_nb.inspection.semantics.onnx_call import MEANINGS
from tests.inspection.conftest import script_says


def _shown(path):
    """Return the error that a script shows, and that in the file."""
    words = script_says(path).replace(",", " ").split()
    return float(words[words.index("error") + 1]), float(words[-1])


def test_a_script_shows_the_error_of_a_node(save, node, tmp_path, monkeypatch):
    nodes = [node("Add", ["x", "one"], ["more"], name="/add"), node("Exp", ["more"], ["y"], name="/exp")]
    path = save(nodes, {"x": [2]}, ["y"], {"one": np.float32(1)})
    monkeypatch.setitem(MEANINGS, "Exp", lambda call, x: np.exp(x) * 1.001)
    report = nb.inspect(path, {"x": np.zeros(2, np.float32)}, folder=tmp_path / "out")
    assert report.first.key == "/exp"
    error, stated = _shown(report.scripts[0])
    assert error >= SHOWN * stated > 0


def test_an_error_that_a_fresh_process_does_not_show_gets_no_script(save, node, tmp_path, spoil):
    spoil("y", lambda value: value * (1 + 1e-3))
    report = nb.inspect(save([node("Exp", ["x"], ["y"], name="/exp")], {"x": [4]}, ["y"]), folder=tmp_path / "out")
    assert report.first.key == "/exp"
    assert report.scripts == ()
    assert not list((tmp_path / "out").glob("finding_*"))
    reason = "No script for finding 1 (/exp): in a process of its own, on the same values, it is right."
    assert reason in report.notes
    assert "No script for finding 1" in (tmp_path / "out" / "report.html").read_text()


def test_a_structural_finding_gets_no_script_that_shows_nothing(save, node, tmp_path):
    nodes = [node("Mul", ["x", "k"], ["p"], name="/mul"), node("Tanh", ["p"], ["y"], name="/tanh")]
    right, changed = (save(nodes, {"x": [8]}, ["y"], {"k": np.float32(k)}, name=f"{k}.onnx") for k in (2, 3))
    report = nb.inspect(changed, against=right, folder=tmp_path / "out")
    assert report.first.key == "/mul"
    assert report.scripts == ()
    assert any("it is the comparison that parts here" in note for note in report.notes)
