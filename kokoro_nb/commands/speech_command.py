"""kokoro-nb deliver, say, transcribe, probe, check-delivery: folders that programs speak with, and what is heard."""

import argparse
import re
from pathlib import Path
from typing import Any

from kokoro_nb.commands import add_model, subcommand
from kokoro_nb.errors import InputError


def add(commands: Any) -> None:
    """Add the subcommands to what `ArgumentParser.add_subparsers` returned."""
    deliver = subcommand(commands, "deliver", _deliver, "write a folder that a program loads and speaks", record=False)
    deliver.add_argument("folder", type=Path, help="absent or empty")
    text = (
        "kokoro-onnx, kokoro-onnx==0.5, sherpa-onnx, sherpa-onnx==1, kokoro.js, react-native-executorch, "
        "react-native-executorch-padded, fluidaudio, kokoro-coreml (in the sizes of --tokens and --seconds), or say: "
        "the two stages that `kokoro-nb say` speaks with, to which alone --backend to --seconds apply (default: say)"
    )
    deliver.add_argument("--for", dest="client", default="say", metavar="CLIENT", help=text)
    deliver.add_argument("--voices", nargs="+", metavar="V", help="of the weights (default: their first)")
    deliver.add_argument("--dtype", default="float32", help="of the stored weights: float32, float16 or int8")
    deliver.add_argument("--noise", help="bank: in the file, repeatable; drawn: at each call (default: bank)")
    deliver.add_argument("--words", type=Path, metavar="FILE", help="a text whose words the lexicon has")
    deliver.add_argument("--force", action="store_true", help="replace what is in the folder, whole")
    say = subcommand(commands, "say", _say, "speak a text with two exported stages alone", record=False)
    say.add_argument("text", help="American English, of any length")
    say.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast (default: 1)")
    say.add_argument("--folder", type=Path, metavar="DIR", help="deliver there, not in the cache")
    say.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the WAV file, 32-bit float")
    for command in (deliver, say):
        command.add_argument("--backend", default="onnxruntime", metavar="B", help="writes files and runs here")
        command.add_argument("--host", default="onnxruntime", metavar="B", help="runs what precedes the decoder")
        command.add_argument("--at-har", action="store_true", help="run the harmonic source on the host too")
        command.add_argument("--fast", action="store_true", help="on XNNPACK: a faster decoder")
        add_model(command, "mini")
        command.add_argument("--voice", default="", metavar="V", help="of the weights (default: their first)")
        command.add_argument("--g2p", default="espeak", help="espeak, or misaki where its spaCy model is installed")
        command.add_argument("--tokens", type=int, metavar="N", help="room of the first stage (default: 256)")
        command.add_argument("--seconds", type=float, nargs="+", metavar="S", help="buckets (default: 3 10 45)")
        text = "in place of --tokens and buckets: on onnxruntime, and the decoder on executorch-xnnpack up to the "
        text += "longest of --seconds; theirs without --tokens and --seconds"
        command.add_argument("--any-length", action="store_true", help=text)
    text = "write down what Whisper hears in a WAV file"
    transcribe = subcommand(commands, "transcribe", _transcribe, text, record=False)
    transcribe.add_argument("file", type=Path, help="one channel")
    transcribe.add_argument("--model", default="mini", metavar="M", help="mini, a name of whisper's, or a checkpoint")
    probe = subcommand(commands, "probe", _probe, "find out what a program feeds to its model", record=False)
    probe.add_argument("client", help="as after `deliver --for`; any program with the same layout can be probed")
    probe.add_argument("folder", type=Path, nargs="?", help="write the probe delivery here; absent or empty")
    probe.add_argument("--read", type=Path, metavar="WAV", help="read what the program made of the probe")
    probe.add_argument("--ids", type=int, nargs="+", default=[], metavar="ID", help="what it was to feed, with pads")
    probe.add_argument("--speed", type=float, default=0.0, help="what it was to feed")
    probe.add_argument("--force", action="store_true", help="replace what is in the folder, whole")
    text = "compare a folder with what a program expects"
    check = subcommand(commands, "check-delivery", _check, text, record=False)
    check.add_argument("folder", type=Path, help="in the program's layout, whoever made it")
    check.add_argument("--for", dest="client", required=True, metavar="CLIENT", help="as after `deliver --for`")


def _delivery(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Return Kokoro, and the `Delivery` that is requested."""
    from kokoro_nb.delivery.export import SECONDS, TOKENS, Delivery
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.reporting.execute import DELIVERY, require_memory

    require_memory("a delivery", arguments.weights, DELIVERY)
    given = {name: getattr(arguments, name) for name in ("backend", "host", "at_har", "g2p", "fast")}
    given["tokens"] = TOKENS if arguments.tokens is None else arguments.tokens
    given |= {"seconds": tuple(arguments.seconds or SECONDS), "any_length": _any_length(arguments)}
    return load_model(arguments.weights, arguments.seed), Delivery(**given, voices=(arguments.voice,))


def _any_length(arguments: argparse.Namespace) -> bool:
    """Return whether it is requested, or nothing is said of sizes and each program takes any."""
    from kokoro_nb.delivery.any_length import takes_any_length

    if arguments.any_length and arguments.tokens is not None:
        raise InputError("With --any-length a text has as many tokens as the model takes; leave out --tokens.")
    sizes_given = arguments.tokens is not None or arguments.seconds is not None
    any_taken = takes_any_length(arguments.backend, arguments.host or arguments.backend)
    return arguments.any_length or (any_taken and not sizes_given)


def _deliver(arguments: argparse.Namespace) -> int:
    from kokoro_nb.verbs import deliver

    kokoro, requested = _delivery(arguments)
    voices = arguments.voices or ([arguments.voice] if arguments.voice else [])
    say = {name: value for name, value in vars(requested).items() if name != "voices"}
    options = say if arguments.client == "say" else _client_options(arguments)
    made = deliver(kokoro, arguments.client, arguments.folder, voices, arguments.dtype, arguments.force, **options)
    count = sum(path.is_file() for path in arguments.folder.rglob("*"))
    print(f"{arguments.folder}: {count} files for {arguments.client}, {made.weights}")
    return 0


def _client_options(arguments: argparse.Namespace) -> dict[str, Any]:
    from kokoro_nb.delivery.clients.exported_programs import NoiseChoice
    from kokoro_nb.delivery.clients.known_clients import Room, contract

    options: dict[str, Any] = {}
    if arguments.noise or not contract(arguments.client).makes_noise:
        options["noise"] = NoiseChoice(arguments.noise or "bank", arguments.seed)
    if contract(arguments.client).client == "kokoro-coreml":
        options["room"] = Room(arguments.tokens or Room.tokens, tuple(arguments.seconds or Room.seconds))
    if arguments.words:
        options["words"] = _words(arguments.words)
    return options


def _words(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The words in {path} cannot be read ({error}); give a text file in UTF-8.") from error
    words = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", text.lower())
    if not words:
        raise InputError(f"{path} has no words; give a text of at least one.")
    return words


def _say(arguments: argparse.Namespace) -> int:
    from kokoro_nb.delivery.export import deliver, delivered
    from kokoro_nb.delivery.pipeline import TwoStages
    from kokoro_nb.listening.waveform import write_wav

    kokoro, requested = _delivery(arguments)
    if arguments.folder:
        deliver(kokoro, requested, arguments.folder)
    speaker = TwoStages(arguments.folder or delivered(kokoro, requested))
    audio = speaker.speak(arguments.text, speed=arguments.speed, seed=arguments.seed)
    write_wav(arguments.out, audio, speaker.contract.sample_rate)
    print(f"{arguments.out}: {len(audio) / speaker.contract.sample_rate:.2f} s, {speaker.contract.weights}")
    return 0


def _transcribe(arguments: argparse.Namespace) -> int:
    from kokoro_nb.listening.transcript import doubts
    from kokoro_nb.listening.waveform import read_wav
    from kokoro_nb.verbs import transcribe

    heard = transcribe(*read_wav(arguments.file), arguments.model)
    print(heard.text.strip())
    for doubt in doubts(heard):
        print(f"not to be believed: {doubt}")
    return int(bool(doubts(heard)))


def _check(arguments: argparse.Namespace) -> int:
    from kokoro_nb.delivery.clients.delivery_check import check_delivery

    check = check_delivery(arguments.folder, arguments.client)
    for deviation in check.deviations:
        print(f"deviation: {deviation}")
    for note in check.notes:
        print(f"note: {note}")
    print(f"{arguments.folder}: {len(check.deviations)} deviations from the contract of {check.client}")
    if check.deviations:
        print(f"Deliver it again: kokoro-nb deliver FOLDER --for {arguments.client}")
    return int(bool(check.deviations))


def _probe(arguments: argparse.Namespace) -> int:
    from kokoro_nb.delivery.clients.probe import compare_reading, read_probe, write_probe
    from kokoro_nb.listening.waveform import read_wav

    if bool(arguments.folder) == bool(arguments.read):
        raise InputError("Give either a folder for the probe delivery, or --read with a WAV file made from it.")
    if arguments.folder:
        rules = write_probe(arguments.client, arguments.folder, force=arguments.force)
        print(f"{arguments.folder}: a probe for {rules.label}. Have it speak with {rules.raw}, save the audio as WAV,")
        print(f"and read it: kokoro-nb probe {arguments.client} --read FILE.wav")
        return 0
    reading = read_probe(*read_wav(arguments.read))
    deviations = compare_reading(reading, arguments.client, tuple(arguments.ids), arguments.speed)
    for row in reading.table():
        print(f"{row['what']:>10}  {row['as fed']}")
    for sentence in deviations:
        print(f"deviation: {sentence}")
    return int(bool(deviations))
