"""The Core ML packages of a folder, compared with what the client loads and feeds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.chained_host import KINDS, ChainedHost, ChainedUtterance, StageProgram
from kokoro_nb.delivery.clients.chained_hosts import chained_host
from kokoro_nb.delivery.clients.client_contract import ClientContract, TensorRule
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation
from kokoro_nb.delivery.clients.kokoro_coreml_client import SECONDS, TOKENS, durations, frame_stages
from kokoro_nb.delivery.clients.staged_signal_check import check_signal
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

_FATAL = ("program missing", "program unreadable", "input name", "output name", "input shape")


def check_packages(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in the packages of a folder: in what they declare, and in what they do, chained."""
    found = list(_incomplete(root, rules))
    for name, (inputs, outputs) in rules.programs.items():
        if not (root / name).is_dir():
            continue  # named already
        try:
            stage = StageProgram(root / name)
        except InputError as error:
            found.append(ContractDeviation("program unreadable", name, "a Core ML program", _first(error)))
            continue
        declared = {feature.name: feature.type.multiArrayType for feature in stage.description.input}
        given = {feature.name for feature in stage.description.output}
        if "mask" in {rule.name for rule in inputs} and "mask" not in declared:
            found.append(ContractDeviation("mask missing", name, "an input mask", ", ".join(declared)))
            inputs = tuple(rule for rule in inputs if rule.name != "mask")
        if set(declared) - {"mask"} != {rule.name for rule in inputs} - {"mask"}:  # one is optional over the prosody
            wanted = ", ".join(rule.name for rule in inputs)
            found.append(ContractDeviation("input name", name, wanted, ", ".join(declared)))
            continue
        if not {rule.name for rule in outputs} <= given:
            wanted = ", ".join(rule.name for rule in outputs)
            found.append(ContractDeviation("output name", name, wanted, ", ".join(sorted(given))))
        for rule in inputs:
            found += _input(name, rule, declared[rule.name], rules)
    yield from found
    complete = rules.alternatives or all((root / name).is_dir() for name in rules.programs)
    if complete and not any(one.rule in _FATAL for one in found):
        yield from _behaviour(root, rules)


def _incomplete(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what a client of programs in several sizes lacks: a first stage, or a stage of a size that others have."""
    if not rules.alternatives or not any((root / name).is_dir() for name in rules.programs):
        return  # named already
    if not any((root / durations(size)).is_dir() for size in TOKENS):
        yield ContractDeviation("program missing", durations(TOKENS[0]), "a first stage of some size", "none")
    sets = [[name for name in frame_stages(size) if not (root / name).is_dir()] for size in SECONDS]
    for missing in sets:
        if 0 < len(missing) < 3:
            yield ContractDeviation("program missing", missing[0], "each stage of a size", "others of it alone")
    if all(len(missing) == 3 for missing in sets):
        yield ContractDeviation("program missing", sets[0][0], "the stages over frames of some size", "none")


def _input(name: str, rule: TensorRule, declared: Any, rules: ClientContract) -> Iterator[ContractDeviation]:
    where, dtype = f"{name} {rule.name}", KINDS.get(declared.dataType, str(declared.dataType))
    if dtype != rule.dtype:
        yield ContractDeviation("input dtype", where, rule.dtype, dtype)
    if len(declared.shape) != len(rule.shape):
        yield ContractDeviation("input shape", where, f"{len(rule.shape)} axes", str(len(declared.shape)))
        return
    ranges = declared.shapeRange.sizeRanges
    for place, axis in enumerate(rule.shape):
        if isinstance(axis, int) and declared.shape[place] != axis:
            yield ContractDeviation("input shape", where, str(axis), str(declared.shape[place]))
        if axis not in rules.ranges:
            continue
        least, most, _ = rules.ranges[str(axis)]
        low, high = (ranges[place].lowerBound, ranges[place].upperBound) if ranges else (declared.shape[place],) * 2
        if low > least or 0 <= high < most:
            yield ContractDeviation("length limits", where, f"{least} to {most}", f"{low} to {high}")


def first_utterance(root: Path, rules: ClientContract) -> tuple[ChainedHost, ChainedUtterance]:
    """Return the host of a folder, and what it says of six symbols in its first voice.

    Raises
    ------
    InputError
        If the folder has no voice, or a program refuses what it is given.
    """
    voices = sorted(path.stem for path in root.glob(rules.voices.path.format(voice="*")))
    if not voices:
        raise InputError(f"There is no voice in {root}.")
    host = chained_host(root, rules)
    return host, host.utter(Request(_text(host), voices[0]))


def _text(host: ChainedHost) -> str:
    return "".join([symbol for symbol in host.vocab if symbol.isalpha()][:6])


def _behaviour(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    voices = sorted(path.stem for path in root.glob(rules.voices.path.format(voice="*")))
    if not voices:
        return  # named already
    try:
        host, said = first_utterance(root, rules)
        text = _text(host)
        again = host.utter(Request(text, voices[0]))
        slow, short = host.utter(Request(text, voices[0], speed=0.5)), host.utter(Request(text[:1], voices[0]))
    except (InputError, RuntimeError, ValueError, TypeError, KeyError) as error:
        yield ContractDeviation("does not run", str(root.name), "audio for texts of 1 and 6 ids", _first(error))
        return
    yield from _audio(said, [name for name in rules.programs if (root / name).is_dir()][-1])
    yield from check_signal(host, said)
    if slow.durations.sum() == said.durations.sum():
        yield ContractDeviation("speed ignored", "the chain", "longer audio at half the speed", "the same length")
    if not np.array_equal(said.audio, again.audio):
        yield ContractDeviation("not repeatable", "the chain", "the same audio twice", "other audio")
    if len(short.audio) != SAMPLES_PER_FRAME * short.durations.sum():
        yield ContractDeviation(
            "length", "the chain", "600 samples a frame", f"{len(short.audio)} for a text of one id"
        )


def _audio(said: ChainedUtterance, last: str) -> Iterator[ContractDeviation]:
    frames = int(said.durations.sum())
    if len(said.audio) != SAMPLES_PER_FRAME * frames:
        yield ContractDeviation("length", last, "600 samples a frame", f"{len(said.audio)} for {frames} frames")
    if not np.isfinite(said.audio).all():
        yield ContractDeviation(
            "not finite", last, "finite audio", f"{np.mean(~np.isfinite(said.audio)):.0%} of a text"
        )
        return
    peak = float(np.abs(said.audio).max())
    if not peak > 1e-4:
        yield ContractDeviation("silent", last, "audio", f"a peak of {peak:.1e}")
    if peak > 4:
        yield ContractDeviation("clipped", last, "a peak of about full scale", f"{peak:.1f} times full scale")


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
