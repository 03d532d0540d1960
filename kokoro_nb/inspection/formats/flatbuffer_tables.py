"""Tables of a FlatBuffer read by the text of its schema, numbers with all their bits.

ExecuTorch hands a delegate's payload out as bytes. Its ``flatc`` writes JSON with six digits, too few for a scale.
The layout is that of https://flatbuffers.dev/internals.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SCALARS = {
    **{"bool": "?", "byte": "b", "ubyte": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I"},
    **{"long": "q", "ulong": "Q", "int64": "q", "uint64": "Q", "float": "f", "double": "d"},
}
DEEPEST = 16  # tables in tables


@dataclass(frozen=True)
class FlatTable:
    """One table.

    Attributes
    ----------
    kind : str
        Its name in the schema; of a union, the name of the member.
    values : dict of str to object
        Numbers, texts, lists and further tables by the names of the fields; what is not stored is left out.
    places : dict of str to (int, str)
        Where each number lies in the bytes, and its form, as `struct` calls it.
    """

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def get(self, name: str, default: Any = 0) -> Any:
        """Return a field, or what it is where it is not stored."""
        return self.values.get(name, default)


@dataclass(frozen=True)
class FlatSchema:
    """A schema.

    Attributes
    ----------
    tables : dict
        Fields of each table in the order of their slots: name and type.
    unions : dict
        Members of each union: name and table.
    enums : dict
        Type of each enumeration, and the names of its values.
    root : str
        The table at the top.
    """

    tables: Mapping[str, tuple[tuple[str, str], ...]]
    unions: Mapping[str, tuple[tuple[str, str], ...]]
    enums: Mapping[str, tuple[str, Mapping[int, str]]]
    root: str

    @classmethod
    def read(cls, text: str) -> "FlatSchema":
        """Read the text of a schema; of what such a text may hold, what ExecuTorch's hold."""
        plain = re.sub(r"//[^\n]*", "", text)
        tables = {name: tuple(_fields(body)) for name, body in re.findall(r"\btable\s+(\w+)\s*{([^}]*)}", plain)}
        unions = {
            name: tuple((one, table or one) for one, table in re.findall(r"(\w+)\s*(?::\s*(\w+))?\s*,?", body))
            for name, body in re.findall(r"\bunion\s+(\w+)\s*{([^}]*)}", plain)
        }
        enums = {
            name: (base, {int(number): one for one, number in re.findall(r"(\w+)\s*=\s*(-?\d+)", body)})
            for name, base, body in re.findall(r"\benum\s+(\w+)\s*:\s*(\w+)\s*{([^}]*)}", plain)
        }
        (root,) = re.findall(r"\broot_type\s+(\w+)", plain)
        return cls(tables, unions, enums, root)

    def table(self, data: bytes) -> FlatTable:
        """Read the table at the top.

        Raises
        ------
        ValueError
            If the bytes are cut off or damaged.
        """
        try:
            return self._table(data, self.root, self.root, _number(data, 0, "I"), DEEPEST)
        except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
            raise ValueError(f"no {self.root}: {error}") from error

    def _table(self, data: bytes, table: str, kind: str, place: int, depth: int) -> FlatTable:
        if not depth:
            raise ValueError("tables lie too deep in tables")
        slots = place - _number(data, place, "i")
        size = _number(data, slots, "H")
        values: dict[str, Any] = {}
        places = {}
        slot = 0
        for name, form in self.tables[table]:
            steps = 2 if form in self.unions else 1
            offsets = [
                _number(data, slots + 4 + 2 * (slot + k), "H") for k in range(steps) if 4 + 2 * (slot + k) < size
            ]
            slot += steps
            if len(offsets) < steps or not all(offsets):
                continue
            at = place + offsets[-1]
            if form in self.unions:
                member, inner = self.unions[form][_number(data, place + offsets[0], "B") - 1]
                values[name] = self._table(data, inner, member, at + _number(data, at, "I"), depth - 1)
            else:
                values[name] = self._value(data, form, at, depth)
                code = SCALARS.get(self.enums.get(form, (form,))[0])
                if code is not None:
                    places[name] = (at, code)
        return FlatTable(kind, values, places)

    def _value(self, data: bytes, form: str, at: int, depth: int) -> Any:
        if form in self.enums:
            base, names = self.enums[form]
            return names[_number(data, at, SCALARS[base])]
        if form in SCALARS:
            return _number(data, at, SCALARS[form])
        start = at + _number(data, at, "I")
        if form == "string":
            return data[start + 4 : start + 4 + _number(data, start, "I")].decode()
        if not form.startswith("["):
            return self._table(data, form, form, start, depth - 1)
        count, inner = _number(data, start, "I"), form[1:-1]
        width = struct.calcsize(SCALARS.get(inner, "I"))
        if start + 4 + count * width > len(data):
            raise ValueError("a list is longer than the data")
        return [self._value(data, inner, start + 4 + k * width, depth) for k in range(count)]


def _number(data: bytes, place: int, code: str) -> Any:
    if place < 0:
        raise IndexError("a place before the data")
    return struct.unpack_from(f"<{code}", data, place)[0]


def _fields(body: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"(\w+)\s*:\s*(\[?\w+\]?)[^;]*;", body)
