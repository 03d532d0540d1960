"""A mended copy of a folder that deviates from a client's contract, each change measured before and after."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients import beside_mending, onnx_mending, pte_mending
from kokoro_nb.delivery.clients.beside_check import changed_files, check_beside
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.delivery_check import DeliveryCheck, check_delivery
from kokoro_nb.delivery.clients.delivery_runs import LONG, ProgramRuns
from kokoro_nb.delivery.clients.inverse_level import InverseLevel, inverse_level
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.package_mending import rescale_packages
from kokoro_nb.errors import InputError
from kokoro_nb.storage import atomic

LEVEL = "level of bins 1 to 9 and of the ends, relative to torch.istft"


@dataclass(frozen=True)
class MendedRow:
    """One change.

    Attributes
    ----------
    rule : str
        Of the deviation.
    change : str
    measure : str
        What was measured, with its unit.
    before, after : str
    """

    rule: str
    change: str
    measure: str
    before: str
    after: str


@dataclass(frozen=True)
class MendedDelivery:
    """A mended copy.

    Attributes
    ----------
    folder : Path
    rows : tuple of MendedRow
    left : DeliveryCheck
        What the copy still deviates in.
    """

    folder: Path
    rows: tuple[MendedRow, ...]
    left: DeliveryCheck


def mend(check: DeliveryCheck, client: str, out: str | Path, seed: int = 0) -> MendedDelivery:
    """Write a copy of a checked folder in which what can be mended is.

    Parameters
    ----------
    check : DeliveryCheck
    client : str
        The one that it was checked for.
    out : path
        Absent or empty.
    seed : int
        Of the noise that takes the place of draws.

    Raises
    ------
    InputError
        If nothing in it can be mended, or `out` is not empty.
    """
    rules, place = contract(client), Path(out)
    held = {one.rule for one in check.deviations}
    mendable = {"ONNX": tuple(onnx_mending.MENDS), "ExecuTorch": pte_mending.RULES, "Core ML": ("level",)}[rules.form]
    beside = [rule for names, _ in beside_mending.MENDS for rule in names]
    refusal = InputError(
        f"Nothing in {check.folder} can be mended by a change of the program or by what the folder itself tells; only "
        f"{', '.join(dict.fromkeys((*mendable, *beside)))} can, where what is right follows from other files of it."
    )
    wanted = [rule for rule in mendable if rule in held]
    if not wanted and not held.intersection(beside):
        raise refusal
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{place} is not empty; choose another folder.")
    with atomic(place) as draft:
        shutil.copytree(check.folder, draft)
        rows = [*_beside(draft, rules), *_programs(draft, rules, wanted, seed)]
        if not rows:
            raise refusal
        rows += _checksums(draft, check.folder)
    return MendedDelivery(place, tuple(rows), check_delivery(place, client))


def _beside(draft: Path, rules: ClientContract) -> Iterator[MendedRow]:
    for names, change in beside_mending.MENDS:
        before = [one.rule for one in check_beside(draft, rules) if one.rule in names]
        made = change(draft, rules) if before else ""
        if made:
            after = [one.rule for one in check_beside(draft, rules) if one.rule in names]
            for rule in dict.fromkeys(before):
                counts = str(before.count(rule)), str(after.count(rule))
                yield MendedRow(rule, made, beside_mending.MEASURE, *counts)


def _checksums(draft: Path, folder: Path) -> Iterator[MendedRow]:
    before, made = changed_files(draft), beside_mending.tell_checksums(draft, folder)
    if made:
        after = changed_files(draft)
        yield MendedRow("checksum", made, beside_mending.MEASURE, str(len(before)), str(len(after)))


def _programs(draft: Path, rules: ClientContract, wanted: Sequence[str], seed: int) -> Iterator[MendedRow]:
    import onnx

    if rules.form == "Core ML" and wanted:
        change, *levels = rescale_packages(draft, rules)
        yield MendedRow("level", change, LEVEL, *map(_level_shown, levels))
    if rules.form == "ExecuTorch" and wanted:
        change, *refused = pte_mending.tell_schemas(draft, rules)
        yield MendedRow(wanted[0], change, "what the client refuses in the schemas", *refused)
    for path in rules.programs if rules.form == "ONNX" else ():
        if not (draft / path).is_file():
            continue
        for rule in wanted:
            model = onnx.load(draft / path)
            measure, before = _measured(rule, model, draft / path)
            change = onnx_mending.MENDS[rule](model, rules, path, seed)
            onnx.save(model, draft / path)
            yield MendedRow(rule, change, measure, before, _measured(rule, model, draft / path)[1])


def _measured(rule: str, model: Any, path: Path) -> tuple[str, str]:
    """Return what is measured for a rule, with its unit, and its value in a program now."""
    if rule == "level":
        level = inverse_level(model)
        return LEVEL, "none" if level is None else _level_shown(level)
    if rule == "draws":
        return "correlation of the audio of two runs", _two_runs(path)
    if rule == "IR version":
        return "version of the form", str(model.ir_version)
    return "inputs -> outputs", f"{_names(model.graph.input)} -> {_names(model.graph.output)}"


def _level_shown(level: InverseLevel) -> str:
    return f"{level.middle:.4f} and {level.ends:.4f}"


def _names(values: Any) -> str:
    from onnx import helper

    kinds = (np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)).name for value in values)
    return ", ".join(f"{value.name} {kind}" for value, kind in zip(values, kinds, strict=True))


def _two_runs(path: Path) -> str:
    try:
        run = ProgramRuns(path)
        first, second = run(LONG)[0], run(LONG)[0]
    except Exception as error:  # a runtime's errors have no common class
        return f"does not run: {str(error).splitlines()[0][:80]}"
    return f"{np.corrcoef(first, second)[0, 1]:.4f}" if len(first) == len(second) else "different lengths"
