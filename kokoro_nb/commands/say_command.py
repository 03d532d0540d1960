"""``say``: text to a WAV file, by the programs of one backend alone."""

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the subcommand to what `ArgumentParser.add_subparsers` returned."""
    say = commands.add_parser("say", help="speak a text with two exported stages alone")
    say.add_argument("text", help="American English, of any length")
    say.add_argument("--backend", default="onnxruntime", metavar="B", help="a backend that writes files and runs here")
    say.add_argument("--host", default="onnxruntime", metavar="B", help="what runs before it (default: onnxruntime)")
    say.add_argument("--at-har", action="store_true", help="leave the harmonic source to the host too")
    say.add_argument("--fast", action="store_true", help="on XNNPACK: a faster decoder, for more memory")
    say.add_argument("--weights", default="mini", metavar="W", help="as in the notebooks (default: mini)")
    say.add_argument("--voice", default="", metavar="V", help="one of the weights' voices (default: their first)")
    say.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast (default: 1)")
    say.add_argument("--seed", type=int, default=0, help="of random weights and of the source's noise (default: 0)")
    say.add_argument("--g2p", default="espeak", help="espeak, or misaki where its spaCy model is (default: espeak)")
    say.add_argument("--tokens", type=int, metavar="N", help="room of the first stage (default: 256)")
    say.add_argument("--seconds", type=float, nargs="+", metavar="S", help="buckets (default: 3 10 45)")
    say.add_argument("--folder", type=Path, metavar="DIR", help="keep programs and contract there, not in the cache")
    say.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the WAV file, 32-bit float")
    say.set_defaults(command=_say)


def _say(arguments: argparse.Namespace) -> int:
    from kokoro_nb.delivery.export import SECONDS, TOKENS, Delivery, deliver, delivered
    from kokoro_nb.delivery.pipeline import TwoStages
    from kokoro_nb.listening.waveform import write_wav
    from kokoro_nb.models.kokoro import load_model

    kokoro = load_model(arguments.weights, arguments.seed)
    asked = Delivery(
        arguments.backend,
        arguments.host,
        arguments.at_har,
        (arguments.voice,),
        TOKENS if arguments.tokens is None else arguments.tokens,
        tuple(arguments.seconds or SECONDS),
        arguments.g2p,
        arguments.fast,
    )
    if arguments.folder:
        deliver(kokoro, asked, arguments.folder)
    speaker = TwoStages(arguments.folder or delivered(kokoro, asked))
    audio = speaker.speak(arguments.text, speed=arguments.speed, seed=arguments.seed)
    write_wav(arguments.out, audio, speaker.contract.sample_rate)
    print(f"{arguments.out}: {len(audio) / speaker.contract.sample_rate:.2f} s, {speaker.contract.weights}")
    return 0
