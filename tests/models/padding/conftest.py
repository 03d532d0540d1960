import pytest
import torch


@pytest.fixture
def sentence(narrow):
    """Return a function that makes the inputs of a text of so many tokens, 0 at both ends as the model has it."""

    def make(tokens, seed=0):
        draw = torch.Generator().manual_seed(1000 * seed + tokens)
        symbols = torch.tensor(list(narrow.model.vocab.values()))
        ids = symbols[torch.randint(0, len(symbols), (1, tokens), generator=draw)]
        ids[:, 0] = ids[:, -1] = 0
        return {"ids": ids, "ref_s": 0.3 * torch.randn(1, 256, generator=draw), "speed": torch.ones(1)}

    return make
