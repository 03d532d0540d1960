import pytest

from kokoro_nb.errors import InputError

WHOLE = """
notebook = ["01", "02_other"]
retries = 2
timeout = 30.5
[grid]
backend = ["eager", "coreml"]
buckets = [[3, 10], [45]]
[fixed]
weights = "narrow"
[requires]
backend.coreml = "coreml"
backend.onnxruntime-qnn = ["qnn", "licence"]
weights.narrow = "small"
"""


def test_a_whole_sweep_is_read(spec_of, tmp_path):
    spec = spec_of(tmp_path, WHOLE)
    assert (spec.name, spec.notebooks, spec.retries, spec.timeout) == ("spec", ("01", "02_other"), 2, 30.5)
    assert spec.grid == {"backend": ("eager", "coreml"), "buckets": ([3, 10], [45])}
    assert spec.fixed == {"weights": "narrow"}
    assert spec.requires == {
        "backend": {"coreml": ("coreml",), "onnxruntime-qnn": ("qnn", "licence")},
        "weights": {"narrow": ("small",)},
    }


def test_what_is_not_said_is_left_at_once_and_without_limit(spec_of, tmp_path):
    spec = spec_of(tmp_path, 'notebook = "01"')
    assert (spec.notebooks, spec.grid, spec.fixed, spec.requires) == (("01",), {}, {}, {})
    assert (spec.retries, spec.timeout) == (0, None)


BAD = {
    "no TOML": ("notebook = ", "cannot be read as TOML"),
    "unknown key": ('notebook = "01"\nworkers = 2', "no 'workers'; it may have notebook, grid"),
    "no notebook": ("[grid]\nnumber = [1]", "'notebook' of a sweep has to be"),
    "notebook as a number": ("notebook = 13", "'notebook' of a sweep has to be"),
    "no notebooks": ("notebook = []", "'notebook' of a sweep has to be"),
    "grid that is no table": ('notebook = "01"\ngrid = 3', "begin it with [grid]"),
    "one value in the grid": ('notebook = "01"\n[grid]\nnumber = 3', "a single one goes into [fixed]"),
    "no value in the grid": ('notebook = "01"\n[grid]\nnumber = []', "needs a list of values"),
    "a value twice": ('notebook = "01"\n[grid]\nnumber = [3, 4, 3]', "has the value 3 twice; leave one out"),
    "grid and fixed": ('notebook = "01"\n[grid]\nnumber = [3]\n[fixed]\nnumber = 4', "leave it out of one"),
    "a date": ('notebook = "01"\n[fixed]\nnumber = 2026-11-22', "value of no plain kind"),
    "out_dir": ('notebook = "01"\n[fixed]\nout_dir = "x"', "choose the folder with --out"),
    "requires without parameter": ('notebook = "01"\n[requires]\nbackend.a = "a"', "neither in [grid] nor in [fixed]"),
    "requires without value": ('notebook = "01"\n[fixed]\nb = 1\n[requires]\nb = "a"', "needs a value of 'b'"),
    "a resource as a number": ('notebook = "01"\n[fixed]\nb = 1\n[requires]\nb.1 = 2', "'requires.b.1' of a sweep"),
    "fewer than no retries": ('notebook = "01"\nretries = -1', "a whole number, 0 or more, not -1"),
    "half a retry": ('notebook = "01"\nretries = 0.5', "a whole number, 0 or more, not 0.5"),
    "retries as a truth": ('notebook = "01"\nretries = true', "a whole number, 0 or more, not True"),
    "no time at all": ('notebook = "01"\ntimeout = 0', "a number of seconds above 0, not 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_sweep_is_reported_in_one_sentence(spec_of, tmp_path, name):
    text, told = BAD[name]
    with pytest.raises(InputError) as caught:
        spec_of(tmp_path, text)
    message = str(caught.value)
    assert told in message
    assert message.endswith(".")
    assert "\n" not in message


def test_an_absent_file_is_reported(spec_of, tmp_path):
    from kokoro_nb.reporting.sweep.spec import read_spec

    with pytest.raises(InputError, match="There is no sweep at"):
        read_spec(tmp_path / "none.toml")
