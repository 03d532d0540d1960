import base64
import json
import math

import numpy as np
import pytest
import soundfile
from matplotlib.figure import Figure

from kokoro_nb.errors import ChecksError, InputError
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.reporting import versions
from kokoro_nb.reporting.logbook import Logbook

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
    assert (about["notebook"], about["weights"]) == ("03_decoder_nan", LABEL)
    assert about["parameters"] == {"frames": 24, "weights": "narrow", "gain": "nan"}
    assert about["started"].endswith("+00:00")
    assert about["finished"] is None
    assert {"torch"} <= set(about["versions"])
    assert "commit" in about


def test_a_check_that_holds_is_recorded_with_figure_limit_and_weights(log):
    log.check("parity", "It agrees.", 1e-6, 1e-4, unit="of peak", backend="onnxruntime", tap="har", evidence=["a.png"])
    expected = Finding(
        *("parity", "pass", "It agrees.", LABEL, "onnxruntime", 1e-6, 1e-4, "of peak", "har"),
        evidence=("a.png",),
        relation="<=",
    )
    assert on_disk(log)[0] == (expected,)


def test_a_check_that_fails_is_on_disk_and_the_notebook_goes_on_until_it_is_closed(log):
    assert "knb-fail" in log.check("parity", "It agrees.", 2, 40, ">=", "dB").html
    (finding,), about = on_disk(log)
    assert (finding.verdict, finding.value, finding.reason) == ("fail", 2.0, "measured 2 dB, required >= 40 dB")
    assert about["finished"] is None
    with pytest.raises(AssertionError, match=r"It agrees.*measured 2 dB, required >= 40 dB"):
        log.close()
    assert on_disk(log)[1]["finished"] is not None


def test_close_names_every_check_that_failed_in_one_message(log):
    log.check("k", "It holds.", 1, 2)
    log.claim("k", "It is true.", np.bool_(True))
    log.outcome("runs", "It runs in eager.", None, "eager")
    log.check("k", "It is near.", math.nan, 1, unit="of peak", backend="tvm", tap="decoder:exp")
    log.claim("k", "It is so.", False)
    log.claim("k", "Both name one.", False, "conv1d and add", backend="tvm")
    log.outcome("runs", "It runs.", "tvm fell\n  from the rung", "tvm")
    log.note(Finding("diagnosis", "fail", "It is sick.", LABEL, diagnosis={}))
    with pytest.raises(ChecksError) as raised:
        log.close()
    assert str(raised.value).splitlines() == [
        "4 of 7 checks failed:",
        "- It is near. (tvm; decoder:exp; measured NaN of peak, required <= 1 of peak)",
        "- It is so. (it is not so)",
        "- Both name one. (tvm; conv1d and add)",
        "- It runs. (tvm; tvm fell from the rung)",
    ]


@pytest.mark.parametrize(
    ("op", "good", "bad"), [("<=", 2, 3), ("<", 1, 2), (">=", 2, 1), (">", 3, 2), ("==", 2, 2.0000001)]
)
def test_each_relation_accepts_and_rejects_and_nan_fails_it(log, op, good, bad):
    for value, limit in ((good, 2), (bad, 2), (math.nan, math.nan)):
        log.check("k", "Holds.", value, limit, op)
    with pytest.raises(AssertionError, match="measured NaN"):
        log.close()
    assert [finding.verdict for finding in log.findings] == ["pass", "fail", "fail"]
    raw = json.loads((log.out_dir / "findings.json").read_text())["findings"][2]
    assert (raw["verdict"], raw["value"]) == ("fail", "nan")
    assert math.isnan(on_disk(log)[0][2].value)
    with pytest.raises(InputError, match="no relation"):
        log.check("k", "Differs.", 1, 2, "!=")


@pytest.mark.parametrize(("value", "verdict"), [(2, "pass"), (3, "unknown"), (math.nan, "unknown")])
def test_what_a_busy_machine_spoils_is_unknown_and_close_shows_the_board(log, value, verdict):
    log.check("timing", "It is as fast as itself.", value, 2, unknown="the machine was busy")
    assert log.close() is log
    assert on_disk(log)[1]["finished"] is not None
    assert [finding.verdict for finding in log.findings] == [verdict]
    assert ("the machine was busy" in log.findings[0].reason) == (verdict == "unknown")
    assert f"1 check: 1 {'passed' if verdict == 'pass' else verdict}" in repr(log)
    assert "knb-board" in log._repr_html_()


def test_an_answer_is_kept_with_its_picture(log):
    with pytest.raises(InputError, match="The answer is empty"):
        log.answer(" ")
    picture = log.figure(Figure(), "curve", "A curve")
    shown = log.answer("It is <NaN>.", picture)
    assert shown.html == '<p class="knb knb-answer">It is &lt;NaN&gt;.</p>'
    assert on_disk(log)[1]["answer"] == {"text": "It is <NaN>.", "picture": "curve.png", "alt": "A curve"}


def test_note_records_a_failure_without_raising_and_skip_keeps_its_reason(log):
    log.note(Finding("finite", "fail", "The old kernel gives NaN.", LABEL))
    log.skip("finite", "Finite on Core ML.", "macOS only", "coreml")
    findings, _ = on_disk(log)
    assert [(finding.verdict, finding.reason) for finding in findings] == [("fail", ""), ("skip", "macOS only")]
    with pytest.raises(InputError, match="needs a reason"):
        log.skip("finite", "Finite on Core ML.", "")


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


def test_audio_is_kept_as_float_beside_the_findings(log):
    y = np.array([0, 2, np.nan], np.float32)
    shown = log.audio("eager / float32", y, 24000)
    (entry,) = on_disk(log)[1]["audio"]
    np.testing.assert_array_equal(soundfile.read(log.out_dir / entry["path"], dtype="float32")[0], y)
    assert entry == {"label": "eager / float32", "path": "eager_float32.wav", "sr": 24000, "samples": 3}
    assert "not finite" in shown.html


def test_versions_side_by_side_are_kept_as_float_each(log):
    versions = {"eager": np.array([0, 0.5], np.float32), "tvm": np.array([3, np.nan], np.float32)}
    shown = log.side_by_side(versions, 24000, "Heard")
    entries = on_disk(log)[1]["audio"]
    assert [entry["path"] for entry in entries] == ["eager.wav", "tvm.wav"]
    np.testing.assert_array_equal(soundfile.read(log.out_dir / "tvm.wav", dtype="float32")[0], versions["tvm"])
    assert "Heard" in shown.html
    with pytest.raises(InputError, match="one length"):
        log.side_by_side({"long": np.zeros(3), "short": np.zeros(2)}, 24000)
    assert len(on_disk(log)[1]["audio"]) == 2, "what is refused leaves nothing"


def test_a_cell_may_be_executed_again_but_two_labels_may_not_share_a_file(log):
    y = np.zeros(10)
    log.audio("a b", y, 100)
    log.audio("a b", y, 100)
    assert len(on_disk(log)[1]["audio"]) == 1
    with pytest.raises(InputError, match="share the file a_b"):
        log.audio("a/b", y, 100)
    with pytest.raises(InputError, match="No file can be named"):
        log.audio("...", y, 100)


def test_an_interrupted_save_leaves_the_findings_whole(log, monkeypatch):
    log.check("k", "Holds.", 1, 2)

    def broken(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.write_text", broken)
    with pytest.raises(OSError, match="disk full"):
        log.check("k", "Holds too.", 1, 2)
    monkeypatch.undo()
    assert [finding.statement for finding in on_disk(log)[0]] == ["Holds."]
    assert [path.name for path in log.out_dir.iterdir()] == ["findings.json"]


def test_without_a_folder_it_writes_into_the_projects_outputs(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kokoro-nb"\n')
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert Logbook("01_a", LABEL, {}).out_dir == tmp_path / "outputs" / "notebooks" / "01_a"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "another"\n')
    monkeypatch.setattr(versions, "project_folder", lambda *_: None)
    assert Logbook("01_a", LABEL, {}).out_dir == tmp_path / "notebooks" / "outputs" / "notebooks" / "01_a"


def test_names_and_parameters_are_checked_before_anything_takes_time(tmp_path):
    with pytest.raises(InputError, match="no name for a notebook"):
        Logbook("../up", LABEL, {}, tmp_path)
    with pytest.raises(InputError, match="parameter 'model' cannot be written"):
        Logbook("01_a", LABEL, {"model": object()}, tmp_path)
    for bad in ({"trace_backends": ["eager", "onnxrutime"]}, {"backend": "tvm-fast"}, {"delegates": ["x"]}):
        with pytest.raises(InputError):
            Logbook("01_a", LABEL, bad, tmp_path)
    good = {"trace_backends": ["eager", "tvm"], "backend": "onnxruntime", "faults": ["sign_flip@decoder:add"]}
    assert Logbook("01_a", LABEL, good, tmp_path).findings == []


def test_a_claim_takes_no_figure(log):
    for figure in (1, None):
        with pytest.raises(InputError, match="use check for a figure"):
            log.claim("same", "It is so.", figure)
