import pytest

from kokoro_nb.delivery.clients.known_clients import CONTRACTS, contract
from kokoro_nb.errors import InputError


def test_a_name_stands_for_its_newest_known_version():
    labels = {"kokoro-onnx": "kokoro-onnx 0.6", "kokoro-onnx==0.5": "kokoro-onnx 0.5"}
    labels |= {"kokoro-onnx==0.6.1": "kokoro-onnx 0.6", "sherpa-onnx": "sherpa-onnx 2.0"}
    labels |= {"sherpa-onnx==2": "sherpa-onnx 2.0", "sherpa-onnx==1": "sherpa-onnx 1.13"}
    labels |= {"sherpa-onnx==1.13.4": "sherpa-onnx 1.13", "kokoro.js": "kokoro.js 1.2"}
    assert {asked: contract(asked).label for asked in labels} == labels


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("kokoro_onnx", "the nearest is kokoro-onnx, and all are kokoro-onnx, sherpa-onnx, kokoro.js"),
        (
            "kokoro-onnx==0.7",
            "nearest that is known is 0.6 .0.5 differs in inputs or outputs, row of the style, voices",
        ),
        ("sherpa-onnx==1.12", "nearest that is known is 1.13 .2.0 differs in files"),
        ("kokoro.js==2", "nearest that is known is 1.2 .no other version is known"),
        ("kokoro-onnx==new", "'new' is no version"),
    ],
)
def test_what_is_not_known_names_the_nearest_and_what_differs(asked, said):
    with pytest.raises(InputError, match=said):
        contract(asked)


@pytest.mark.parametrize("rules", CONTRACTS, ids=lambda rules: rules.label)
def test_no_text_is_without_a_row(rules):
    rows = {rules.row.of(count, count, rules.voices.rows) for count in range(1, rules.max_tokens + 1)}
    assert min(rows) >= 0
    assert max(rows) < rules.voices.rows
