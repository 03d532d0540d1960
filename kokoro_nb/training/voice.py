"""Train the small voice, or write it out: ``python -m kokoro_nb.training.voice --steps 9500``.

SIGTERM and Ctrl-C save and end the run; ``--resume`` goes on. ``--export FOLDER`` writes what the run has come to.
"""

import argparse
import sys
from pathlib import Path

import torch

from kokoro_nb.errors import InputError
from kokoro_nb.storage import cache_dir
from kokoro_nb.training.corpus import build_corpus
from kokoro_nb.training.learner import Learner
from kokoro_nb.training.trainer import Settings, Trainer, load_checkpoint, train


def export(run: Path, folder: Path) -> Path:
    """Write the averaged weights of the run's checkpoint to `folder`; see `kokoro_nb.training.export`."""
    from kokoro_nb.training.export import export_voice
    from kokoro_nb.training.samples import voice_of

    state = load_checkpoint(run)
    config = Learner(0, state["settings"]["width"]).config
    return export_voice(voice_of(config, state["learner"] | state["average"]), config, state, folder)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m kokoro_nb.training.voice", description=str(__doc__).split("\n")[0])
    parser.add_argument("--out", type=Path, default=cache_dir() / "training" / "voice", help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write the run's voice there instead of training")
    parser.add_argument("--steps", type=int, help="length of the run; with --resume a new length")
    parser.add_argument("--rate", type=float, help="highest learning rate")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--sentences", type=int, help="size of the corpus, a multiple of 100")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--no-compile", dest="compiled", action="store_false", default=None)
    parser.add_argument("--float32", dest="bfloat16", action="store_false", default=None)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.export:
        print(f"wrote {export(options.out, options.export)}")
        return 0
    names = ("steps", "rate", "seed", "sentences", "compiled", "bfloat16")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    state = load_checkpoint(options.out) if options.resume else None
    if state is None and (options.out / "checkpoint.pt").exists():
        raise InputError(f"{options.out} holds a run already; go on with --resume, or choose another --out.")
    settings = Settings(**((state["settings"] if state else {}) | given))
    trainer = Trainer(settings, build_corpus(settings.sentences, settings.seed), options.device)
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
