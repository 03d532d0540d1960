"""Every defect on today's versions: there as it is, gone in its control."""

import re
from pathlib import Path

import numpy as np
import pytest

from kokoro_nb.defects import DEFECTS, defect, measure
from kokoro_nb.defects.catalogue import MEASURED_ON, versions
from kokoro_nb.locate.survey import survey
from kokoro_nb.models.patches import PATCHES
from tests.refusals import refused

# Some of each tool; the versions are pinned, and `make test-all` measures every one.
QUICK = (
    *("coremltools_atan2", "coremltools_reciprocal", "coremltools_remainder", "executorch_gap_nan", "onnx_atan2_nan"),
    *("onnx_reference_conv_transpose", "onnx_verification_unsigned", "torch_gelu_infinity", "torchscript_signed_zero"),
    *("tvm_ignored_alpha", "tvm_instance_norm", "tvm_lost_state", "xnnpack_tanh_gelu"),
)
NAMES = [pytest.param(known.name, marks=[pytest.mark.slow] * (known.name not in QUICK)) for known in DEFECTS]


@pytest.mark.parametrize("name", NAMES)
def test_is_there_today_and_gone_in_the_control(name, measured):
    before = {name: tensor.clone() for name, tensor in defect(name).inputs.items()}
    found = measured(name)
    if "is not installed" in found.absent:
        pytest.skip(found.absent)
    assert not found.absent
    for key, tensor in defect(name).inputs.items():
        np.testing.assert_array_equal(tensor, before[key])
    assert found.state == "present" or found.defect.varies, "mended upstream: name the version in which it is gone"
    assert not found.mended.wrong, found.mended
    assert found.mended.seen == found.mended.expected or found.mended.error <= found.defect.limit
    row = found.as_dict()
    assert (row["today"], row["control: wrong (%)"]) == (found.state, 0)
    assert (row["wrong (%)"] > 0) is (found.state == "present")


def test_there_are_58_and_each_is_listed_once():
    assert len({known.name for known in DEFECTS}) == len({known.title for known in DEFECTS}) == 58


@pytest.mark.parametrize("known", DEFECTS, ids=lambda known: known.name)
def test_every_record_is_whole(known):
    assert re.fullmatch(r"[^.]+(\.\d[^.]*|\.\w[^.]*)*\.", known.cause), "one sentence"
    assert known.where
    assert known.mended_by
    assert {*known.packages} - {*versions(known.packages)} <= {*MEASURED_ON}, "what may be absent is named"
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#[1-9]\d*", thread) for thread in known.threads)
    named = re.findall(r"the patch (\w+)", known.mended_by)
    assert set(named) <= set(PATCHES)


def test_a_package_that_is_absent_is_a_skip_with_its_reason(monkeypatch):
    monkeypatch.setattr("kokoro_nb.cache_keys._version", lambda package: "absent")
    found = measure(defect("tvm_ignored_alpha"))
    assert (found.state, found.mended, found.broken) == ("SKIP", None, None)
    assert found.as_dict()["today"] == "SKIP: apache-tvm is not installed; install it with pip install apache-tvm."


def test_a_case_that_breaks_is_a_skip_with_what_was_raised(monkeypatch):
    def broken(inputs, mended, run):
        raise OSError("no such\nplace")

    known = defect("torch_gelu_infinity")
    monkeypatch.setattr(known, "seen", broken)
    assert (measure(known).state, measure(known).absent) == ("SKIP", "OSError: no such place")


def test_what_vanished_from_the_version_that_it_was_measured_on_is_no_skip(monkeypatch):
    known = defect("coremltools_remainder")
    monkeypatch.setattr(known, "seen", lambda inputs, mended, run: known.expected(inputs))
    found = measure(known)
    assert (found.state, found.expected) == ("gone", "present"), "10 skipped it: gone in the installed version"
    monkeypatch.setattr("kokoro_nb.defects.catalogue.MEASURED_ON", {"coremltools": "8.0"})
    assert found.expected is None


def test_the_catalogue_was_measured_on_the_locked_versions():
    root = Path(__file__).parents[2]
    listed = "".join((root / name).read_text(encoding="utf-8") for name in ("environment.yml", "pyproject.toml"))
    assert {known.packages[0] for known in DEFECTS} == set(MEASURED_ON)
    assert all(f"{tool}=={version}" in re.split(r'[\s"]+', listed) for tool, version in MEASURED_ON.items())


def test_a_control_that_is_wrong_is_seen(monkeypatch):
    known = defect("torch_gelu_infinity")
    monkeypatch.setattr(known, "seen", lambda inputs, mended, run: -known.expected(inputs))
    found = measure(known)
    assert found.mended.wrong
    assert found.as_dict()["control: wrong (%)"] == 50  # of -50, 0, 50 and inf the last two have another sign


def test_an_unknown_name_is_refused():
    refused(r"no defect 'gelu'; there are coremltools_atan2, ", defect, "gelu")


@pytest.mark.parametrize("name", ["coremltools_remainder", "coremltools_reciprocal", "coremltools_atan2"])
def test_what_a_converted_program_means_is_what_our_reference_computes(name, measured):
    # the runner of coremltools' cases has the converter compute the operators; coreml-reference-float32 is ours
    known = defect(name)
    found = measured(name)
    (row,) = survey(known.module(mended=False), known.inputs, ["coreml-reference-float32"], calls=1)
    if found.absent or row.absent:
        pytest.skip(found.absent or row.absent)
    assert row.eager64.of_peak == pytest.approx(found.broken.error, rel=1e-4)
