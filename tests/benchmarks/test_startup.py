import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import absence
from kokoro_nb.backends.exported import export_program
from kokoro_nb.benchmarks.startup import (
    IMPORTED_BY,
    OTHERS,
    PACKAGE,
    SECONDS,
    WHOLE,
    by_package,
    cached_exports,
    imports,
)
from kokoro_nb.errors import InputError

OUTPUT = """import time: self [us] | cumulative | imported package
import time:       100 |        100 |     inner.deep
import time:        50 |        150 |   inner
import time:        20 |         20 |     inner.late
import time:      1000 |       1020 |   middle.part
a warning in between
import time:         7 |       1177 | outer
"""


def test_a_package_counts_with_all_its_modules_and_the_first_way_to_it():
    assert by_package(OUTPUT) == {
        "outer": (7e-6, ()),
        "middle": (1000e-6, ("outer",)),
        "inner": (pytest.approx(170e-6), ("outer",)),
    }


def test_the_rows_add_up_and_name_who_asked():
    rows = {row[PACKAGE]: row for row in imports(["json", "xml.dom.minidom"], rounds=1)}
    whole = rows.pop(WHOLE)[SECONDS]
    assert sum(row[SECONDS] for row in rows.values()) == pytest.approx(whole)
    assert rows["json"][SECONDS] > 0
    assert "json" not in rows["xml"][IMPORTED_BY]
    assert OTHERS in rows


@pytest.mark.parametrize(
    ("modules", "rounds", "message"), [(["kokoro_nb_nowhere"], 1, "No module named"), (["json"], 0, "0 rounds")]
)
def test_what_cannot_be_imported_is_one_sentence(modules, rounds, message):
    with pytest.raises(InputError, match=message):
        imports(modules, rounds)


def test_an_artefact_is_found_where_it_was_made():
    inputs = {"input": torch.ones(1, 3, 64)}
    exported = export_program(nn.Conv1d(3, 4, 3), inputs)
    (row,), skipped = cached_exports(exported, inputs, ["onnxruntime", "tvm-metal"])
    assert row["size (MB)"] > 0
    assert row["found (s)"] < row["made (s)"]
    assert skipped == {"tvm-metal": absence(BACKENDS["tvm-metal"])}
