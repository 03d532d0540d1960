"""A module of one's own, sick and healthy, from the file to the bundle; the decoder is what the notebook runs."""

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches
from kokoro_nb.studies import diagnose as study

SOURCE = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.instance_norm(x).sin()


def example():
    torch.manual_seed(0)
    return Net(), {"x": 10 + 0.01 * torch.randn(1, 256, 3840)}
"""


def test_inputs_from_a_file_and_what_does_not_fit(tmp_path):
    (tmp_path / "net.py").write_text(SOURCE)
    target = f"{tmp_path / 'net.py'}:example"
    np.savez(tmp_path / "x.npz", x=np.ones((1, 2, 5), np.float32))
    subject = study.diagnosed_subject(target, inputs=str(tmp_path / "x.npz"))
    assert tuple(subject.inputs["x"].shape) == (1, 2, 5)
    with pytest.raises(InputError, match="cannot be read"):
        study.diagnosed_subject(target, inputs=str(tmp_path / "absent.npz"))
    with pytest.raises(InputError, match="no patch 'two_pas_norm'"):
        study.diagnosed_subject(target, patches="all but two_pas_norm")


def test_patches_by_words_or_names():
    assert chosen_patches("all") == EXPORT_PATCHES
    assert set(EXPORT_PATCHES) - set(chosen_patches("all but two_pass_norm")) == {"two_pass_norm"}
    assert chosen_patches(None) == chosen_patches("none") == chosen_patches([]) == ()
    assert chosen_patches("floor_phase, exact_istft") == chosen_patches(["floor_phase", "exact_istft"])
    with pytest.raises(InputError, match="no patch 'some'"):
        chosen_patches("some")
