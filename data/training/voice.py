"""Train the small voice, or write it out: ``python -m training.voice --steps 9500``.

SIGTERM and Ctrl-C save and end the run; ``--resume`` goes on. ``--export FOLDER`` writes the weights of the run.
"""

from pathlib import Path

from kokoro_nb.benchmarks.interleaved import threads
from training.command import carry_out, exit_with, run_parser
from training.corpus import build_corpus
from training.learner import Learner
from training.trainer import Settings, Trainer, load_checkpoint


def export(run: Path, folder: Path) -> Path:
    """Write the averaged weights of the run's checkpoint to `folder`; see `training.voice_export`."""
    from training.samples import voice_of
    from training.voice_export import export_voice

    state = load_checkpoint(run)
    config = Learner(0, state["settings"]["width"]).config
    return export_voice(voice_of(config, state["learner"] | state["average"]), config, state, folder)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = run_parser("training.voice", str(__doc__), "voice")
    parser.add_argument("--sentences", type=int, help="size of the corpus, a multiple of 100")
    parser.add_argument("--no-compile", dest="compiled", action="store_false", default=None)
    options = parser.parse_args(arguments)

    def make(settings: Settings) -> Trainer:
        return Trainer(settings, build_corpus(settings.sentences, settings.seed), options.device)

    with threads(options.threads):
        carry_out(options, Settings(), make, export)


if __name__ == "__main__":
    exit_with(main)
