"""kokoro-nb probe, check-delivery: what a program in the field does with a file, and whether a folder suits it."""

import argparse
from pathlib import Path
from typing import Any

from kokoro_nb.commands import subcommand
from kokoro_nb.errors import InputError


def add(commands: Any) -> None:
    """Add the subcommands to what `ArgumentParser.add_subparsers` returned."""
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
