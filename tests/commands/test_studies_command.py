import json

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.traces.record import checked_record


@pytest.mark.parametrize("verb", ["repair", "validate-steps"])
def test_what_is_right_in_pytorch_is_a_record_and_exit_status_0(verb, capsys):
    assert main([verb, "--backend", "eager", "--json"]) == 0
    found = checked_record(json.loads(capsys.readouterr().out), f"{verb}/1", "It")
    assert found["minimal"] == ["explicit_noise"] if verb == "repair" else len(found["steps"]) > 10
