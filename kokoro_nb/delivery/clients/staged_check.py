"""Programs of several stages compared with a client's contract: what they declare, and what they do, chained."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, ContractDeviation, TensorRule
from kokoro_nb.delivery.clients.hosts import ReactNativeHost, host
from kokoro_nb.delivery.clients.known_clients import PREDICTOR, SYNTHESIZER
from kokoro_nb.delivery.clients.kokoro_coreml_client import SECONDS, TOKENS, durations, frame_stages
from kokoro_nb.delivery.clients.model_schema import METHOD, schema_faults
from kokoro_nb.delivery.clients.programs import KINDS, PteProgram, StageProgram
from kokoro_nb.delivery.clients.signal_check import SHORT, check_behaviour, check_stages, style_row
from kokoro_nb.errors import InputError, one_line

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
            found.append(ContractDeviation("program unreadable", name, "a Core ML program", one_line(error)))
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
    there = [name for name in rules.programs if (root / name).is_dir()]
    complete = there and (rules.alternatives or len(there) == len(rules.programs))
    if not complete or any(one.rule in _FATAL for one in found):
        return
    speaker = host(root, rules)
    noticed, said = check_behaviour(speaker, there[0], there[-1])
    yield from noticed
    if said is not None:
        yield from check_stages(speaker, said)


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


def check_pair(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in the programs of a folder: in what they tell, and in what they do."""
    loaded: dict[str, PteProgram] = {}
    for name, signature in rules.programs.items():
        if not (root / name).is_file():
            continue  # named already
        try:
            loaded[name] = PteProgram(root / name)
        except InputError as error:
            yield ContractDeviation("program unreadable", name, "an ExecuTorch program", one_line(error))
            continue
        schema = loaded[name].schema()
        if schema is None:
            yield ContractDeviation("schema missing", name, f"a constant method {METHOD}", "none")
        elif isinstance(schema, str):
            yield ContractDeviation("schema form", f"{name} {METHOD}", "JSON", schema[:60])
        else:
            for rule, expected, found in schema_faults(schema, signature, rules):
                yield ContractDeviation(rule, f"{name} {METHOD}", expected, found)
    if len(loaded) == len(rules.programs):
        yield from _durations(root, rules)


def _durations(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in what a pair gives: first the durations of a text that is padded, then all of it."""
    speaker = ReactNativeHost(root, rules)
    try:
        _, mask, *made = speaker.predict(SHORT, style_row())
    except InputError as error:
        yield ContractDeviation("does not run", PREDICTOR, f"durations for {len(SHORT)} tokens", one_line(error))
        return
    found = list(_outputs(made, PREDICTOR, rules.programs[PREDICTOR][1]))
    yield from found
    if found:
        return
    lasting, text = made[0].reshape(-1), mask[0]
    if (lasting[text] < 1).all() and (lasting[~text] > 0).any():
        yield ContractDeviation("mask reversed", PREDICTOR, "durations where the mask is True", "durations where not")
        return
    if lasting[~text].any():
        yield ContractDeviation("padding lasts", PREDICTOR, "0 behind the text", str(int(lasting[~text].sum())))
    if (lasting[text] < 1).any():
        yield ContractDeviation("durations", PREDICTOR, "1 frame or more a token", str(int(lasting[text].min())))
    noticed, said = check_behaviour(speaker, PREDICTOR, SYNTHESIZER)
    yield from noticed
    if said is not None:
        yield from _outputs([said.values["audio"]], SYNTHESIZER, rules.programs[SYNTHESIZER][1])


def _outputs(made: Sequence[np.ndarray], name: str, rules: tuple[TensorRule, ...]) -> Iterator[ContractDeviation]:
    if len(made) != len(rules):
        yield ContractDeviation("number of outputs", name, str(len(rules)), str(len(made)))
        return
    for value, rule in zip(made, rules, strict=True):
        if value.dtype != rule.dtype:
            yield ContractDeviation("output dtype", f"{name} {rule.name}", rule.dtype, str(value.dtype))
        elif value.ndim != len(rule.shape):
            shown = f"({', '.join(map(str, rule.shape))})"
            yield ContractDeviation("output shape", f"{name} {rule.name}", shown, str(value.shape))
