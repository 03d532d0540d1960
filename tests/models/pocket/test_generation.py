"""The loop in NumPy: it ends where the package ends, and refuses what would be lost without a word."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket import flow_and_mimi, pocket_steps, transformer
from kokoro_nb.models.pocket.generation import speak
from kokoro_nb.models.pocket.pocket_architecture import load_pocket, small_config
from kokoro_nb.run_apart import run_apart
from tests.models.pocket.conftest import TEXT, host_for, of_peak, say_in_steps, say_package, what_to_say, worst
from tests.refusals import refused

FRAMES = 24


@pytest.fixture(scope="module")
def said(pocket, voice):
    return replace(what_to_say(pocket, voice, FRAMES), sampler=2)


@pytest.fixture(scope="module")
def host(pocket, said):
    return host_for(pocket, said, endless=False)


@pytest.fixture(scope="module")
def steps(pocket, host):
    return pocket_steps.eager_steps(pocket_steps.step_modules(pocket, host))


def test_it_ends_where_the_package_ends(pocket, said, host, steps):
    expected, found = pocket_steps.package_speech(pocket, said), speak(steps, host, said)
    assert host.earliest < len(expected.latents) < FRAMES
    assert found.latents.shape == expected.latents.shape
    assert found.stops.shape == expected.stops.shape
    assert of_peak(found.audio, expected.audio) < 1e-5
    assert found.frames.size / found.rate == len(expected.latents) * 0.08
    later = speak(steps, replace(host, stop_above=host.stop_above + 100), said)  # the control: not listened to
    assert len(later.latents) == FRAMES


def test_the_end_is_not_listened_to_in_the_first_frames(pocket, said, host, steps):
    eager = replace(host, stop_above=-float("inf"))  # every frame says that speech ends
    assert len(speak(steps, eager, replace(said, after_stop=1)).latents) == host.earliest + 1
    assert len(speak(steps, replace(eager, earliest=0), replace(said, after_stop=3)).latents) == 3


def test_it_is_what_the_package_hands_to_its_users(pocket, monkeypatch):
    """`generate_audio` itself, threads and all, with our noise in the place of what it draws."""
    audio = 0.1 * torch.randn(5760, generator=torch.Generator().manual_seed(3))
    padded = torch.nn.functional.pad(audio, (0, 2400))  # ends on a pause, so that the package adds none
    heard = {}
    encode = pocket._encode_audio
    with monkeypatch.context() as patch:
        patch.setattr(pocket, "_encode_audio", lambda given: heard.setdefault("voice", encode(given)))
        state = pocket.get_state_for_audio_prompt(padded[None])
    voice = torch.cat([pocket.flow_lm.bos_before_voice, heard["voice"]], dim=1)
    said = pocket_steps.utterance(pocket, TEXT, voice, seed=1)
    host = host_for(pocket, said, endless=False)
    pocket.max_decoder_frames_per_call = 1
    loop = pocket._autoregressive_generation

    def drawn(*args, **options):  # in a thread of the package's own
        with pocket_steps.GivenNoise(torch.from_numpy(said.noise)):
            return loop(*args, **options)

    monkeypatch.setattr(pocket, "_autoregressive_generation", drawn)
    expected = pocket.generate_audio(state, TEXT)
    found = speak(pocket_steps.eager_steps(pocket_steps.step_modules(pocket, host)), host, said)
    assert found.audio.shape == tuple(expected.shape)
    assert of_peak(found.audio, expected) < 1e-5


def test_a_voice_prompt_is_what_the_package_reads(pocket):
    audio = torch.cat([0.1 * torch.randn(5760, generator=torch.Generator().manual_seed(3)), torch.zeros(1920)])
    prompt = pocket_steps.voice_prompt(pocket, audio)
    assert prompt.shape == (1, 5, pocket.flow_lm.dim)  # four frames, and what stands before them
    assert torch.equal(prompt[:, :1], pocket.flow_lm.bos_before_voice)


def test_too_little_room_is_refused(pocket, said, host, steps):
    with pytest.raises(InputError, match=r"cache has .*; export the steps with a larger one"):
        speak(steps, host, replace(said, noise=np.concatenate([said.noise, said.noise])))
    small = pocket_steps.host_of(pocket, 200, 4, 16)
    refused("384 positions, the cache of Mimi's decoder has 64", speak, steps, small, said)

    refused("no text to say", pocket_steps.utterance, pocket, "  ", said.voice)
    refused("give 1 or more", pocket_steps.host_of, pocket, 20, 0, 16)


def test_the_loop_needs_no_pytorch():
    code = (
        "import sys, types, pathlib; import kokoro_nb; folder = pathlib.Path(kokoro_nb.__file__).parent; "
        "[sys.modules.setdefault(n, types.ModuleType(n)) for n in ('kokoro_nb.models', 'kokoro_nb.models.pocket')]; "
        "sys.modules['kokoro_nb.models.pocket'].__path__ = [str(folder / 'models' / 'pocket')]; "
        "import kokoro_nb.models.pocket.generation; print('torch' in sys.modules)"
    )
    assert run_apart(["-c", code]).stdout.strip() == "False"


def _shared_heads():
    """Return a configuration with what the smallest models have: few key heads, a narrow condition, a table of rank."""
    config = small_config()
    config["flow_lm"]["transformer"] |= {"num_kv_heads": 1, "attn_dim": 24, "dim_feedforward": 40}
    config["flow_lm"]["lookup_table"]["rank"] = 12
    config["flow_lm"]["z_dim"] = 20
    return config


def _assert_the_same(found, expected):
    assert found.language["position"] == expected.language["position"]
    assert found.decoder["position"] == expected.decoder["position"]
    read = int(expected.read["position"][0])
    assert of_peak(found.read["cache"][:, :, :read], expected.read["cache"][:, :, :read]) < 1e-6
    assert [name for name, error in worst(found, expected).items() if not error < 1e-5] == []


def test_a_configuration_with_shared_heads_is_the_package_s_too():
    model = load_pocket(_shared_heads())
    voice = torch.randn(1, 5, model.flow_lm.dim, generator=torch.Generator().manual_seed(7))
    _assert_the_same(say_in_steps(model, voice, 10), say_package(model, voice, 10))


def test_one_by_one_the_frames_are_the_package_s_too(pocket, voice):
    _assert_the_same(say_in_steps(pocket, voice, 10, one_by_one=True), say_package(pocket, voice, 10))


def test_a_latent_of_nan_is_not_taken_for_the_first(pocket):
    latent = torch.full((1, 1, pocket.flow_lm.ldim), float("nan"))
    condition, *_ = flow_and_mimi.FlowLmStep(pocket)(latent, **transformer.flow_lm_state(pocket, 5))
    assert torch.isnan(condition).all()


def test_a_flow_without_two_times_is_refused():
    config = small_config()
    config["flow_lm"]["flow"]["type"] = "drifting"
    refused("type 'drifting' takes 0 times, the step is for two", flow_and_mimi.FlowStep, load_pocket(config))
