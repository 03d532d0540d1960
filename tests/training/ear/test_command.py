import json
from dataclasses import asdict

import pytest
import whisper

from kokoro_nb.errors import InputError
from kokoro_nb.listening.recogniser import load_whisper
from kokoro_nb.training import trainer
from kokoro_nb.training.ear import __main__, ear_export
from kokoro_nb.training.ear.__main__ import main
from kokoro_nb.training.ear.ear_judge import EarScore
from kokoro_nb.training.ear.ear_trainer import EarSettings
from kokoro_nb.training.trainer import load_checkpoint

HEARD = [EarScore("espeak en-us", 50, 0.125, 0.9)]


@pytest.fixture
def small(tiny_ear, tiny_clips, monkeypatch):
    """Let the command line train the tiny ear on the tiny corpus."""
    monkeypatch.setattr(__main__, "EarSettings", lambda **given: EarSettings(**(asdict(tiny_ear) | given)))
    monkeypatch.setattr(__main__, "build_clips", lambda count, seed: tiny_clips)
    monkeypatch.setattr(trainer, "REPORT_EVERY", 2)


def test_the_command_trains_stops_resumes_and_exports(small, tmp_path, capsys, monkeypatch):
    out = ["--out", str(tmp_path / "run")]
    main([*out, "--steps", "2", "--float32"])
    assert "finished at step 2" in capsys.readouterr().out
    with pytest.raises(InputError, match="holds a run already"):
        main(out)
    main([*out, "--resume", "--steps", "4"])
    state = load_checkpoint(tmp_path / "run")
    assert state["step"] == state["settings"]["steps"] == 4
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    assert lines == state["history"]

    judged = []
    monkeypatch.setattr(ear_export, "verdicts", lambda model, count: judged.append((model, count)) or iter(HEARD))
    mini = tmp_path / "whisper_mini"
    mini.mkdir()
    (mini / "MODEL_CARD.md").write_text("## People\n\nhow they hear")
    main([*out, "--export", str(mini), "--sentences", "7"])
    assert judged[0][1] == 7
    assert isinstance(judged[0][0], whisper.model.Whisper), "the card is measured on the file itself"
    card = (mini / "MODEL_CARD.md").read_text()
    assert "4 of 4 steps" in card
    assert "how they hear" in card, "a section that another program measured"
    assert "| espeak en-us | 50 | 12.5% | 90% |" in card
    assert f"| text | {state['history'][-1]['text']:.4g} | 1 |" in card
    assert load_whisper(mini / "whisper_mini.pt").dims.n_audio_ctx == 1500


def test_an_ear_that_is_too_large_or_not_finite_is_not_written(small, tmp_path, monkeypatch):
    out = ["--out", str(tmp_path / "run")]
    main([*out, "--steps", "2"])
    monkeypatch.setattr(ear_export, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="1000 are allowed"):
        main([*out, "--export", str(tmp_path / "mini")])
    state = load_checkpoint(tmp_path / "run")
    state["average"]["whisper.decoder.ln.bias"][3] = 1e6
    with pytest.raises(InputError, match="does not fit into float16"):
        ear_export.export_ear(state, tmp_path / "mini")
    assert not (tmp_path / "mini").exists()


def test_any_whisper_model_can_be_judged(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(__main__, "load_whisper", lambda name: name)
    monkeypatch.setattr(__main__, "verdicts", lambda model, count: iter(HEARD) if model == "mini" else iter(()))
    main(["--judge", "mini"])
    assert "espeak en-us" in capsys.readouterr().out


def test_there_must_be_something_to_resume_or_to_export(tmp_path):
    for wanted in (["--resume"], ["--export", str(tmp_path / "mini")]):
        with pytest.raises(InputError, match="no checkpoint"):
            main(["--out", str(tmp_path), *wanted])
