"""Somebody's folder compared with the contract of a client: what deviates, and what one would hear of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_folder import voice_tables
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation
from kokoro_nb.delivery.clients.folder_check import check_files
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.onnx_check import check_onnx
from kokoro_nb.delivery.clients.staged_check import check_packages, check_pair
from kokoro_nb.errors import InputError


@dataclass(frozen=True)
class DeliveryCheck:
    """A folder compared with a contract.

    Attributes
    ----------
    client : str
    folder : Path
    deviations : tuple of ContractDeviation
        None if the folder keeps the contract.
    notes : tuple of str
        What is no deviation and should be known.
    """

    client: str
    folder: Path
    deviations: tuple[ContractDeviation, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> list[dict[str, str]]:
        """Return a row for each deviation."""
        fields = ("rule", "where", "expected", "found", "consequence")
        return [{name: str(getattr(one, name)) for name in fields} for one in self.deviations]


def check_delivery(folder: str | Path, client: str) -> DeliveryCheck:
    """Compare a folder with the contract of a client.

    Parameters
    ----------
    folder : path
        In the client's layout, whoever made it.
    client : str
        See `known_clients.contract`.

    Raises
    ------
    InputError
        If there is no such folder, or the client is unknown.
    """
    root, rules = Path(folder), contract(client)
    if not root.is_dir():
        raise InputError(f"There is no folder {root}; give one that holds a delivery for {rules.label}.")
    found = list(check_files(root, rules))
    present = {path: signature for path, signature in rules.programs.items() if (root / path).exists()}
    if not present or (len(present) < len(rules.programs) and not rules.alternatives):
        found.append(ContractDeviation("program missing", next(iter(rules.programs)), "a program", "none"))
    if rules.form == "ExecuTorch":
        found += check_pair(root, rules)
    elif rules.form == "Core ML":
        found += check_packages(root, rules)
    else:
        for path, signature in present.items():
            found += check_onnx(root, path, signature, rules)
    return DeliveryCheck(rules.label, root, tuple(found), tuple(_notes(root, rules)))


def _notes(root: Path, rules: ClientContract) -> Iterator[str]:
    try:
        tables = voice_tables(root, rules)
    except (ValueError, OSError, EOFError, KeyError):
        return
    for name, table in tables.items():
        if len(table) > 2 and (table[1:] == table[1]).all():
            yield f"The voice {name} has one row, repeated: a client that takes a wrong row sounds right with it."
