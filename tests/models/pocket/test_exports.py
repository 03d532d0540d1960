"""Each step exported: no value is asked for in the graph, and runtimes give back what eager does."""

from collections import Counter

import pytest
import torch

from kokoro_nb.backends.exported import export_program
from kokoro_nb.models.pocket import flow_and_mimi, transformer

STEPS = ["text", "conditioning step", "conditioning backbone", "language model", "flow", "mimi"]
FORMS = [(name, "one_hot") for name in STEPS]
FORMS += [(name, "scatter") for name in STEPS[1:4]]  # those that write to the cache of the language model
CAPACITY = 24


def _random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _step(pocket, name, write="one_hot"):
    """Return a step and inputs for it, in the midst of an utterance: every state is full of numbers."""
    dim, width = pocket.flow_lm.dim, pocket.flow_lm.ldim
    language, decoder = transformer.flow_lm_state(pocket, CAPACITY), transformer.mimi_state(pocket, 48)
    language = {"cache": _random(*language["cache"].shape, seed=1), "position": torch.tensor([5])}
    streams = {key: _random(*decoder[key].shape, seed=i) for i, key in enumerate(decoder) if key != "position"}
    if name == "text":
        return flow_and_mimi.TextEmbedding(pocket), {"ids": torch.tensor([[5, 300, 17]])}
    if name == "conditioning step":
        return flow_and_mimi.ConditioningStep(pocket, write), {"embedding": _random(1, 1, dim, seed=2), **language}
    if name == "conditioning backbone":
        given = {"embeddings": _random(1, 8, dim, seed=2), "length": torch.tensor([6])}
        return flow_and_mimi.ConditioningBackbone(pocket, write), {**given, **language}
    if name == "language model":
        return flow_and_mimi.FlowLmStep(pocket, write), {"latent": _random(1, 1, width, seed=2), **language}
    if name == "flow":
        times = {"s": torch.tensor([[0.25]]), "t": torch.tensor([[0.5]])}
        return flow_and_mimi.FlowStep(pocket), {"c": _random(1, dim, seed=2), **times, "x": _random(1, width, seed=3)}
    given = {"latent": _random(1, 1, width, seed=2), "position": torch.tensor([16]), **streams}
    return flow_and_mimi.MimiStep(pocket), given


@pytest.mark.parametrize(("name", "write"), FORMS)
def test_the_graph_asks_no_value_and_writes_nowhere(pocket, name, write):
    step, inputs = _step(pocket, name, write)
    exported = export_program(step, inputs)
    assert exported.outputs == step.output_names
    kinds = Counter(str(node.target) for node in exported.program.graph.nodes if node.op == "call_function")
    refused = (".item", "_local_scalar", "nonzero", "masked_select", "copy_", "add_.", "isnan", "rand")
    assert [kind for kind in kinds if any(word in kind for word in refused)] == []
    assert ("aten.scatter.src" in kinds) == (write == "scatter")
