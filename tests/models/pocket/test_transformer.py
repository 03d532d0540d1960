from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from pocket_tts.modules.stateful_module import init_states

from kokoro_nb.backends.exported import export_program
from kokoro_nb.models.pocket import flow_and_mimi, transformer
from kokoro_nb.models.pocket.pocket_architecture import load_pocket, small_config
from tests.refusals import refused


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("tokens", [1, 3])
def test_a_write_goes_where_slicing_puts_it(tokens):
    cache, new = _random(10, 2, 4), _random(tokens, 2, 4, seed=1)
    expected = cache.clone()
    expected[6 : 6 + tokens] = new
    assert torch.equal(transformer.written(cache, new, torch.tensor([6]), tokens), expected)


def test_the_formula_of_gelu_is_torch_s_own():
    x = torch.linspace(-6, 6, 2001, dtype=torch.float64)
    exact = F.gelu(x, approximate="tanh")
    torch.testing.assert_close(transformer.tanh_gelu(x), exact, rtol=0, atol=1e-15)
    # the control: the two kinds of gelu are 4.7e-4 apart at most
    assert (F.gelu(x) - exact).abs().max().item() == pytest.approx(4.73e-4, rel=0.01)


@pytest.fixture
def package(pocket, voice):
    """Return the package's state after the voice."""
    made = init_states(pocket.flow_lm, 1, voice.shape[1] + 3)
    pocket._run_flow_lm_and_increment_step(made, audio_conditioning=voice)
    return made


def test_the_package_s_state_is_taken_over_without_its_nan(pocket, voice, package):
    taken, read = transformer.flow_lm_state(pocket, 20, package), voice.shape[1]
    assert taken["position"].tolist() == [read]
    assert torch.isnan(package["transformer.layers.0.self_attn"]["cache"][:, :, read:]).all()
    for i in range(2):
        kept = package[f"transformer.layers.{i}.self_attn"]["cache"][:, 0, :read]
        assert torch.equal(taken["cache"][i, :, :read], kept)
    assert not taken["cache"][:, :, read:].any()


def test_a_decoder_of_another_build_is_refused():
    config = small_config()
    config["mimi"]["seanet"] |= {"n_residual_layers": 2}
    refused("the step knows decoders with 9, padded with zeros", transformer.mimi_state, load_pocket(config), 32)


STEPS = ["text", "conditioning step", "conditioning backbone", "language model", "flow", "mimi"]
CAPACITY = 24


def _step(pocket, name):
    """Return a step and inputs for it, in the midst of an utterance: every state is full of numbers."""
    dim, width = pocket.flow_lm.dim, pocket.flow_lm.ldim
    language, decoder = transformer.flow_lm_state(pocket, CAPACITY), transformer.mimi_state(pocket, 48)
    language = {"cache": _random(*language["cache"].shape, seed=1), "position": torch.tensor([5])}
    streams = {key: _random(*decoder[key].shape, seed=i) for i, key in enumerate(decoder) if key != "position"}
    if name == "text":
        return flow_and_mimi.TextEmbedding(pocket), {"ids": torch.tensor([[5, 300, 17]])}
    if name == "conditioning step":
        return flow_and_mimi.ConditioningStep(pocket), {"embedding": _random(1, 1, dim, seed=2), **language}
    if name == "conditioning backbone":
        given = {"embeddings": _random(1, 8, dim, seed=2), "length": torch.tensor([6])}
        return flow_and_mimi.ConditioningBackbone(pocket), {**given, **language}
    if name == "language model":
        return flow_and_mimi.FlowLmStep(pocket), {"latent": _random(1, 1, width, seed=2), **language}
    if name == "flow":
        times = {"s": torch.tensor([[0.25]]), "t": torch.tensor([[0.5]])}
        return flow_and_mimi.FlowStep(pocket), {"c": _random(1, dim, seed=2), **times, "x": _random(1, width, seed=3)}
    given = {"latent": _random(1, 1, width, seed=2), "position": torch.tensor([16]), **streams}
    return flow_and_mimi.MimiStep(pocket), given


@pytest.mark.parametrize("name", STEPS)
def test_the_graph_asks_no_value_and_writes_nowhere(pocket, name):
    step, inputs = _step(pocket, name)
    exported = export_program(step, inputs)
    assert exported.outputs == step.output_names
    kinds = Counter(str(node.target) for node in exported.program.graph.nodes if node.op == "call_function")
    forbidden = (".item", "_local_scalar", "nonzero", "masked_select", "copy_", "add_.", "isnan", "rand")
    forbidden += ("scatter", "gelu")
    assert [kind for kind in kinds if any(word in kind for word in forbidden)] == []
