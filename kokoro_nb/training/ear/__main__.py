"""Train the small ear, or write it out: ``python -m kokoro_nb.training.ear --steps 6000``.

SIGTERM and Ctrl-C save and end the run; ``--resume`` goes on. ``--export FOLDER`` writes what the run has come to;
``--judge MODEL`` measures how well any whisper model hears, ``mini`` or a path.
"""

import argparse
import sys
from pathlib import Path

import torch

from kokoro_nb.errors import InputError
from kokoro_nb.listening.recogniser import load_whisper
from kokoro_nb.storage import cache_dir
from kokoro_nb.training.ear.corpus import build_clips
from kokoro_nb.training.ear.export import export_ear
from kokoro_nb.training.ear.judge import SENTENCES, verdicts
from kokoro_nb.training.ear.trainer import EarSettings, EarTrainer
from kokoro_nb.training.trainer import load_checkpoint, train


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m kokoro_nb.training.ear", description=str(__doc__).split("\n")[0])
    parser.add_argument("--out", type=Path, default=cache_dir() / "training" / "ear", help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write the run's ear there instead of training")
    parser.add_argument("--judge", metavar="MODEL", help="measure a model's word error rates instead of training")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="held-out sentences to measure on")
    parser.add_argument("--steps", type=int, help="length of the run; with --resume a new length")
    parser.add_argument("--rate", type=float, help="highest learning rate")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--clips", type=int, help="size of the corpus, a multiple of 100")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--float32", dest="bfloat16", action="store_false", default=None)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.judge:
        for verdict in verdicts(load_whisper(options.judge), options.sentences):
            print(f"{verdict.signal:28} WER {verdict.word_error_rate:6.1%}  believed {verdict.heard:4.0%}", flush=True)
        return 0
    if options.export:
        print(f"wrote {export_ear(load_checkpoint(options.out), options.export, options.sentences)}")
        return 0
    names = ("steps", "rate", "seed", "clips", "bfloat16")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    state = load_checkpoint(options.out) if options.resume else None
    if state is None and (options.out / "checkpoint.pt").exists():
        raise InputError(f"{options.out} holds a run already; go on with --resume, or choose another --out.")
    settings = EarSettings(**((state["settings"] if state else {}) | given))
    trainer = EarTrainer(settings, build_clips(settings.clips, settings.seed), options.device)
    if state:
        trainer.restore(state)
    done = train(trainer, options.out)
    print(f"{'finished' if done else 'stopped'} at step {trainer.step} after {trainer.seconds / 60:.1f} min")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
