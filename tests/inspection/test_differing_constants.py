"""Constants that differ where what they make looks the same, or has no inputs by which it could be paired."""

import numpy as np
import pytest

import kokoro_nb as nb

WEIGHTS = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)


@pytest.fixture
def linear(written):
    """Write two products that read the same, with other weights each, and a third one on their sum."""

    def make(name, turned=None):
        weights = {"q": WEIGHTS, "k": WEIGHTS[::-1] * np.float32(0.7), "o": WEIGHTS.T}
        if turned is not None:
            weights[turned] = weights[turned].copy()
            weights[turned][:, 3] *= -1
        steps = [("MatMul", "x q", "a"), ("MatMul", "x k", "b"), ("Add", "a b", "c"), ("MatMul", "c o", "y")]
        constants = {key: np.ascontiguousarray(value) for key, value in weights.items()}
        return written(name, steps, constants, {"x": [40, 16]})

    return make


@pytest.mark.parametrize(("turned", "made"), [("q", "a"), ("k", "b"), ("o", "y")])
def test_a_channel_with_the_other_sign_is_named_though_its_elements_are_as_large(linear, turned, made):
    report = nb.inspect(linear("b.onnx", turned), against=linear("a.onnx"))
    assert (report.first.key, report.first.kind, report.first.blame) == (f"MatMul {made}", "structure", "file")
    assert "16 of 256 values differ" in report.first.statement


SPEAKER = (("Gather", "table who", "s"), ("Tanh", "x", "t"), ("Add", "s t", "y"))
MASK = (("Where", "mask x low", "m"), ("Softmax", "m", "p"), ("Add", "p x", "y"))
TWO = (("Sin", "x", "y"), ("Cos", "x", "z"))


@pytest.mark.parametrize(
    ("right", "wrong", "key", "words"),
    [
        (SPEAKER, (("Gather", "table zero", "s"), *SPEAKER[1:]), "Gather s", "'zero' stands where a value is read"),
        (TWO, (("Cos", "x", "y"), ("Sin", "x", "z")), "Cos y", "its result is that of the output 'z' of the reference"),
        (MASK, (("Softmax", "x", "p"), *MASK[2:]), "Softmax p", ""),
        ((("Tanh", "x", "y"),), (("Dropout", "x half on", "d"), ("Tanh", "d", "y")), "Dropout d", "draws at random"),
        ((("Clip", "x low far", "y"),), (("Clip", "x low", "y"),), "", "it has no constant like 'far' there"),
    ],
    ids=["baked", "outputs", "mask", "dropout", "bound"],
)
def test_what_the_other_file_has_otherwise_is_said(written, right, wrong, key, words):
    constants = {"table": WEIGHTS[:4, :12], "zero": np.int64([0]), "low": np.float32(-9), "far": np.float32(1e3)}
    constants |= {"half": np.float32(0.5), "on": np.array(True)}

    def made(name, steps):
        shapes = {"x": [6, 12]} | ({"who": [1]} if right is SPEAKER else {"mask": [6, 12]} if right is MASK else {})
        return written(name, steps, constants, shapes, "y z" if right is TWO else "y", who=7, mask=9)

    inputs = {"x": WEIGHTS[:6, :12]} | ({"who": np.int64([2])} if right is SPEAKER else {})
    inputs |= {"mask": np.ones((6, 12), bool)} if right is MASK else {}
    assert nb.inspect(made("same.onnx", right), inputs, made("right.onnx", right)).findings == ()
    found = nb.inspect(made("wrong.onnx", wrong), inputs, made("right.onnx", right))
    assert (found.first.key if key else found.findings) == (key or ())
    assert words in (found.first.statement if key else " ".join(found.notes))
