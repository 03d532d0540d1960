"""A model with a voice whose rows differ, and its deliveries, each made once."""

from dataclasses import replace

import pytest
import torch

from kokoro_nb.delivery.clients.client_delivery import deliver_to
from kokoro_nb.models.kokoro import load_model


@pytest.fixture(scope="session")
def voiced(tmp_path_factory):
    """Return the narrow model, with two voices whose rows all differ, as those of trained weights do."""
    folder, source = tmp_path_factory.mktemp("voices"), torch.Generator().manual_seed(7)
    for name in ("alto", "bass"):
        torch.save(0.3 * torch.randn(510, 1, 256, generator=source), folder / f"{name}.pt")
    return replace(load_model("narrow"), voice_file=lambda name: folder / f"{name}.pt", default_voice="alto")


@pytest.fixture(scope="session")
def deliveries(voiced, tmp_path_factory):
    """Return a function: client and dtype -> the folder of a delivery with both voices."""
    made = {}

    def delivered(client, dtype="float32"):
        key = (client, dtype)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("delivered") / "folder"
            deliver_to(voiced, client, made[key], ("alto", "bass"), dtype)
        return made[key]

    return delivered
