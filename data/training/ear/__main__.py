"""Train the small ear, or write it out: ``python -m training.ear --steps 6000``.

SIGTERM and Ctrl-C save and end the run; ``--resume`` goes on. ``--export FOLDER`` writes the weights of the run;
``--judge MODEL`` measures how well any whisper model hears, ``mini`` or a path.
"""

from pathlib import Path

from kokoro_nb.benchmarks.interleaved import threads
from kokoro_nb.listening.recogniser import load_whisper
from training.command import carry_out, exit_with, run_parser
from training.ear.ear_corpus import build_clips
from training.ear.ear_export import export_ear
from training.ear.ear_judge import SENTENCES, verdicts
from training.ear.ear_trainer import EarSettings, EarTrainer
from training.trainer import load_checkpoint


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = run_parser("training.ear", str(__doc__), "ear")
    parser.add_argument("--judge", metavar="MODEL", help="measure a model's word error rates instead of training")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="held-out sentences to measure on")
    parser.add_argument("--clips", type=int, help="size of the corpus, a multiple of 100")
    options = parser.parse_args(arguments)

    def make(settings: EarSettings) -> EarTrainer:
        return EarTrainer(settings, build_clips(settings.clips, settings.seed), options.device)

    def export(run: Path, folder: Path) -> Path:
        return export_ear(load_checkpoint(run), folder, options.sentences)

    with threads(options.threads):
        if options.judge:
            for verdict in verdicts(load_whisper(options.judge), options.sentences):
                print(f"{verdict.signal:28} WER {verdict.word_error_rate:6.1%}  believed {verdict.heard:4.0%}")
        else:
            carry_out(options, EarSettings(), make, export)


if __name__ == "__main__":
    exit_with(main)
