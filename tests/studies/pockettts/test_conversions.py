import pytest

from kokoro_nb.models.pocket import flow_and_mimi
from kokoro_nb.studies.pockettts.conversions import PackageStep, converted, flexible
from kokoro_nb.studies.pockettts.package_reference import last_calls


@pytest.fixture(scope="module")
def calls(right):
    return last_calls(right.calls)


def test_scatter_is_no_obstacle_to_onnx(pocket, calls):
    found = converted("onnxruntime", flow_and_mimi.ConditioningStep(pocket, "scatter"), calls["conditioning step"])
    assert found.error < 1e-5
    assert str(found).startswith("converts, ")


def test_the_package_s_own_state_is_one(pocket, calls):
    found = converted("onnxruntime", PackageStep(pocket), calls["conditioning step"])
    assert found.failure.rung == "exported"
    assert "data-dependent" in found.failure.message.lower()


def test_what_cannot_run_here_is_skipped(pocket, calls):
    found = converted("executorch-vulkan", flow_and_mimi.TextEmbedding(pocket), calls["text"])
    assert str(found).startswith("SKIP: ")


def test_a_free_length_converts_without_scatter_only(pocket, calls):
    assert flexible(flow_and_mimi.ConditioningBackbone(pocket, "one_hot"), calls["conditioning"]) == "converts"
    refused = flexible(flow_and_mimi.ConditioningBackbone(pocket, "scatter"), calls["conditioning"])
    assert refused.startswith("AssertionError: without a text (in scatter_gather.py")
