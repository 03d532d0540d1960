import json
from dataclasses import asdict

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.training import corpus, trainer, voice
from kokoro_nb.training.trainer import load_checkpoint
from kokoro_nb.training.voice import main


@pytest.fixture
def small(tiny, tiny_corpus, monkeypatch):
    """Let the command line train the tiny model on the tiny corpus."""
    monkeypatch.setattr(voice, "Settings", lambda **given: trainer.Settings(**(asdict(tiny) | given)))
    monkeypatch.setattr(voice, "build_corpus", lambda count, seed: tiny_corpus)
    monkeypatch.setattr(trainer, "REPORT_EVERY", 2)


def test_the_command_trains_stops_and_resumes(small, tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    main([*out, "--steps", "2", "--no-compile", "--float32"])
    assert "finished at step 2" in capsys.readouterr().out
    with pytest.raises(InputError, match="holds a run already"):
        main(out)
    main([*out, "--resume", "--steps", "4"])
    state = load_checkpoint(tmp_path)
    assert state["step"] == state["settings"]["steps"] == 4
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    assert lines == state["history"]


def test_there_must_be_something_to_resume_or_to_export(tmp_path):
    for wanted in (["--resume"], ["--export", str(tmp_path / "mini")]):
        with pytest.raises(InputError, match="no checkpoint"):
            main(["--out", str(tmp_path), *wanted])


def test_the_corpus_of_the_settings_is_asked_for(small, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(voice, "build_corpus", lambda *given: asked.append(given) or corpus.build_corpus(*given))
    with pytest.raises(InputError, match="count=150"):
        main(["--out", str(tmp_path), "--sentences", "150", "--seed", "3"])
    assert asked == [(150, 3)]
