import base64
import math

import numpy as np
import pytest
import soundfile
from matplotlib.figure import Figure

from kokoro_nb.errors import ChecksError, InputError
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.reporting.logbook import Logbook
from tests.refusals import refused

LABEL = "narrow (random, seed 0; 3.4 M parameters; sha256 01234567)"


@pytest.fixture
def log(tmp_path):
    given = {"frames": np.int64(24), "weights": "narrow", "gain": math.nan}
    return Logbook("03_decoder_nan", LABEL, given, tmp_path / "out")


def on_disk(log):
    return read_findings(log.out_dir / "findings.json")


def test_a_new_logbook_is_on_disk_with_what_it_is_about(log):
    findings, about = on_disk(log)
    assert findings == ()
    assert about["parameters"] == {"frames": 24, "weights": "narrow", "gain": "nan"}
    assert "torch" in about["versions"]
    assert "commit" in about


def test_checks_are_on_disk_as_they_are_made_and_close_names_every_one_that_failed(log):
    log.check("parity", "It agrees.", 1e-6, 1e-4, unit="of peak", backend="onnxruntime", tap="har", evidence=["a.png"])
    log.claim("k", "It is true.", np.bool_(True))
    log.outcome("runs", "It runs in eager.", None, "eager")
    log.check("k", "It is near.", math.nan, 1, unit="of peak", backend="tvm", tap="decoder:exp")
    log.claim("k", "It is so.", False)
    log.claim("k", "Both name one.", False, "conv1d and add", backend="tvm")
    log.outcome("runs", "It runs.", "tvm fell\n  from the rung", "tvm")
    log.note(Finding("diagnosis", "fail", "It is sick.", LABEL, diagnosis={}))
    assert on_disk(log)[1]["finished"] is None, "a check that fails stops nothing"
    with pytest.raises(ChecksError) as raised:
        log.close()
    assert str(raised.value).splitlines() == [
        "4 of 7 checks failed:",
        "- It is near. (tvm; decoder:exp; measured NaN of peak, required <= 1 of peak)",
        "- It is so. (it is not so)",
        "- Both name one. (tvm; conv1d and add)",
        "- It runs. (tvm; tvm fell from the rung)",
    ]
    findings, about = on_disk(log)
    held = ("parity", "pass", "It agrees.", LABEL, "onnxruntime", 1e-6, 1e-4, "of peak", "har")
    assert findings[0] == Finding(*held, evidence=("a.png",), relation="<=")
    assert about["finished"] is not None


@pytest.mark.parametrize(
    ("op", "good", "bad"), [("<=", 2, 3), ("<", 1, 2), (">=", 2, 1), (">", 3, 2), ("==", 2, 2.0000001)]
)
def test_each_relation_accepts_and_rejects_and_nan_fails_it(log, op, good, bad):
    for value, limit in ((good, 2), (bad, 2), (math.nan, math.nan)):
        log.check("k", "Holds.", value, limit, op)
    assert [finding.verdict for finding in log.findings] == ["pass", "fail", "fail"]
    assert math.isnan(on_disk(log)[0][2].value)
    refused("no relation", log.check, "k", "Differs.", 1, 2, "!=")


@pytest.mark.parametrize(("value", "verdict"), [(2, "pass"), (3, "unknown"), (math.nan, "unknown")])
def test_what_a_busy_machine_spoils_is_unknown_and_close_shows_the_board(log, value, verdict):
    log.check("timing", "It is as fast as itself.", value, 2, unknown="the machine was busy")
    assert log.close() is log
    assert [finding.verdict for finding in log.findings] == [verdict]
    assert ("the machine was busy" in log.findings[0].reason) == (verdict == "unknown")
    assert f"1 check: 1 {'passed' if verdict == 'pass' else verdict}" in repr(log)


def test_an_answer_is_kept_with_its_picture_and_what_says_nothing_is_refused(log):
    for wrong, sentence in (
        (lambda: log.answer(" "), "The answer is empty"),
        (lambda: log.skip("finite", "Finite on Core ML.", ""), "needs a reason"),
        (lambda: log.claim("same", "It is so.", 1), "use check for a figure"),
    ):
        refused(sentence, wrong)
    picture = log.figure(Figure(), "curve", "A curve")
    assert "It is &lt;NaN&gt;." in log.answer("It is <NaN>.", picture).html
    assert on_disk(log)[1]["answer"] == {"text": "It is <NaN>.", "picture": "curve.png", "alt": "A curve"}


def test_a_figure_is_saved_labelled_closed_and_shown_as_saved(log):
    from matplotlib import pyplot
    from PIL import Image

    fig, axes = pyplot.subplots()
    axes.plot([0, 1])
    shown = log.figure(fig, "waveform <1>", alt="A line")
    assert not pyplot.fignum_exists(fig.number), "the cell would show it twice"
    data, about = shown._repr_mimebundle_()
    path = log.out_dir / on_disk(log)[1]["figures"][0]["path"]
    assert base64.b64decode(data["image/png"]) == path.read_bytes()
    with Image.open(path) as image:
        assert about["image/png"] == {"width": image.width // 2, "height": image.height // 2, "alt": "A line"}
        assert image.info["Description"] == LABEL


def test_versions_side_by_side_are_kept_as_float_each(log):
    versions = {"eager / float32": np.array([0, 0.5], np.float32), "tvm": np.array([3, np.nan], np.float32)}
    shown = log.side_by_side(versions, 24000, "Heard")
    entry, other = on_disk(log)[1]["audio"]
    assert entry == {"label": "eager / float32", "path": "eager_float32.wav", "sr": 24000, "samples": 2}
    assert other["path"] == "tvm.wav"
    np.testing.assert_array_equal(soundfile.read(log.out_dir / "tvm.wav", dtype="float32")[0], versions["tvm"])
    assert "Heard" in shown.html
    refused("one length", log.side_by_side, {"long": np.zeros(3), "short": np.zeros(2)}, 24000)


def test_a_cell_may_be_executed_again_but_two_labels_may_not_share_a_file(log):
    y = np.zeros(10)
    log.audio("a b", y, 100)
    log.audio("a b", y, 100)
    assert len(on_disk(log)[1]["audio"]) == 1
    refused("share the file a_b", log.audio, "a/b", y, 100)


def test_without_a_folder_it_writes_into_the_projects_outputs(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kokoro-nb"\n')
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert Logbook("01_a", LABEL, {}).out_dir == tmp_path / "outputs" / "notebooks" / "01_a"


def test_names_and_parameters_are_checked_before_anything_takes_time(tmp_path):
    refused("no name for a notebook", Logbook, "../up", LABEL, {}, tmp_path)
    refused("parameter 'model' cannot be written", Logbook, "01_a", LABEL, {"model": object()}, tmp_path)
    with pytest.raises(InputError, match="There is no backend 'onnxrutime'"):
        Logbook("01_a", LABEL, {"trace_backends": ["eager", "onnxrutime"]}, tmp_path)
    good = {"trace_backends": ["eager", "tvm"], "backend": "onnxruntime", "faults": ["sign_flip@decoder:add"]}
    assert Logbook("01_a", LABEL, good, tmp_path).findings == []
