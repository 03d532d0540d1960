import json

import numpy as np

from kokoro_nb.locate import Culprit, first_divergence, first_nonfinite


def _wrong_channel(array):
    array = array.copy()
    array[:, 1] += np.float32(0.5)
    return array


def test_the_sentence_names_operator_backend_place_and_pattern(toy):
    program = toy()
    found = first_divergence(program.trace(), program.trace({":sin": _wrong_channel}, backend="tvm"))
    assert found.statement == (
        "On tvm :sin is the first operator that is wrong: 1 of 4 channels wholly, by the same amount along time: "
        "a per-channel scalar."
    )
    lost = first_divergence(program.trace(), program.trace({":sin": _wrong_channel}, missing=[":sin"], backend="tvm"))
    assert lost.statement.startswith(
        "On tvm :add, or one of 2 of which it is the last that was captured, is the first operator that is wrong: "
    )
    right = first_divergence(program.trace(), program.trace(backend="tvm"))
    assert right.statement == "No captured operator is wrong on tvm."


def test_what_is_hidden_is_said_to_be(toy):
    program = toy()
    found = first_nonfinite(None, program.trace({":add": lambda x: x + np.inf}))
    assert found.statement == (
        "On candidate :add is the first operator that is not finite: wholly non-finite; the output does not show it."
    )


def test_plain_values(toy):
    program = toy()
    found = first_divergence(program.trace(), program.trace({":sin": lambda x: -x})).as_dict()
    assert json.loads(json.dumps(found)) == found
    assert (found["tap"], found["op"], found["module path"]) == (":sin", "aten.sin.default", "")
    assert found["mechanism"]["statement"] == "a turned sign"
    nothing = Culprit("divergence", "pass", "eager").as_dict()
    assert (nothing["tap"], nothing["op"], nothing["local error (of peak)"]) == (None, None, None)


def test_a_row_of_findings(toy):
    program = toy()
    found = first_divergence(program.trace(), program.trace({":sin": lambda x: -x}))
    row = found.finding("narrow")
    assert (row.verdict, row.weights, row.backend) == ("fail", "narrow", "candidate")
    assert (row.tap, row.value) == (":sin (aten.sin.default)", found.local_error)
    lost = first_divergence(program.trace(), program.trace(missing=[":sin"])).finding("narrow")
    assert (lost.verdict, lost.reason) == ("unknown", "1 were not captured, from :sin on")
