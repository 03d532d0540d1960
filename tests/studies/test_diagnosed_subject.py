"""A module of one's own, sick and healthy, from the file to the bundle; the decoder is what the notebook runs."""

import numpy as np
import torch

from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches
from kokoro_nb.studies import diagnose as study
from tests.refusals import refused


def example():
    return torch.nn.Tanh(), {"input": torch.ones(1, 2, 3)}


def rewritten():
    return *example(), example()


def test_inputs_from_a_file_and_what_does_not_fit(tmp_path):
    target = f"{__file__}:example"
    np.savez(tmp_path / "x.npz", input=np.ones((1, 2, 5), np.float32))
    subject = study.diagnosed_subject(target, inputs=str(tmp_path / "x.npz"))
    assert tuple(subject.inputs["input"].shape) == (1, 2, 5)
    beside = study.own_module(f"{__file__}:rewritten", [], inputs=tmp_path / "x.npz").reference
    assert beside[1]["input"].shape == (1, 2, 5), "what it was rewritten from follows"
    refused("cannot be read", study.diagnosed_subject, target, inputs=str(tmp_path / "absent.npz"))
    refused("no patch 'two_pas_norm'", study.diagnosed_subject, target, patches="all but two_pas_norm")


def test_patches_by_words_or_names():
    assert chosen_patches("all") == EXPORT_PATCHES
    assert set(EXPORT_PATCHES) - set(chosen_patches("all but two_pass_norm")) == {"two_pass_norm"}
    assert chosen_patches(None) == chosen_patches("none") == chosen_patches([]) == ()
    assert chosen_patches("floor_phase, exact_istft") == chosen_patches(["floor_phase", "exact_istft"])
    refused("no patch 'some'", chosen_patches, "some")
