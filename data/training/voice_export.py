"""Write the small voice in the form that `kokoro_nb.models.kokoro.load_model` reads: a folder."""

from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.models.architecture import MAX_PHONEMES
from kokoro_nb.storage import atomic, write_json, write_text
from training.corpus import CLOSED, VOICES
from training.learner import WEIGHTS
from training.model_card import CARD, as_float16, bullets, losses_table, require_size, with_earlier_sections
from training.samples import Voice, distances, held_out_utterances
from training.sentences import TEMPLATES, VOCABULARY

MOST_BYTES = 8_000_000  # of the weights' file
JUDGED = 25  # held-out sentences for each voice


def export_voice(voice: Voice, config: dict[str, Any], state: dict[str, Any], folder: Path) -> Path:
    """Write ``config.json``, ``kokoro_mini.safetensors`` (float16), ``voices/`` and ``MODEL_CARD.md``.

    Parameters
    ----------
    voice : Voice
    config : dict
        What the model was built from.
    state : dict
        The run's checkpoint; the card describes it.
    folder : Path
        Replaced whole; sections of its card that the new one lacks stay, marked as measured before.

    Raises
    ------
    InputError
        If a weight cannot be held in float16, or the file would be too large.
    """
    from safetensors.torch import save_file

    weights = {
        name: as_float16(name, tensor)
        for name, tensor in voice.model.state_dict().items()
        if tensor.is_floating_point()
    }
    size = sum(tensor.numel() * 2 for tensor in weights.values())
    require_size(size, MOST_BYTES)
    card = with_earlier_sections(model_card(voice, state, size), folder)
    with atomic(folder) as draft:
        (draft / "voices").mkdir(parents=True)
        write_json(draft / "config.json", config)
        save_file(weights, draft / "kokoro_mini.safetensors")
        for name, style in zip(VOICES, voice.styles, strict=True):
            table = as_float16(name, style).expand(MAX_PHONEMES, 1, -1).contiguous()
            save_file({"voice": table}, draft / "voices" / f"{name}.safetensors")
        write_text(draft / CARD, card)
    return folder


def model_card(voice: Voice, state: dict[str, Any], size: int) -> str:
    """Return the card: where the voice comes from, how it was made and how near it came, in Markdown."""
    settings = state["settings"]
    judged = [(list(VOICES)[said.voice], distances(voice, said)) for said in held_out_utterances(JUDGED)]
    rows = "\n".join(
        f"| {name} | {np.mean([d['held_out_mel'] for v, d in judged if v == name]):.3f} "
        f"| {np.mean([d['held_out_duration'] for v, d in judged if v == name]):.2f} |"
        for name in VOICES
    )
    count = sum(p.numel() for p in voice.model.parameters())
    voices = "; ".join(
        f"`{name}` is `{how['voice']}` at {how['rate']} words per minute" for name, how in VOICES.items()
    )
    facts = (
        f"Voices: {voices}.",
        f"Data: {settings['sentences']} sentences, {CLOSED:.0%} of them over a closed vocabulary of {len(VOCABULARY)} "
        f"words in {len(TEMPLATES)} patterns, the others random words of misaki's dictionary. Phonemes by misaki's "
        '`EspeakG2P("en-us")`, aligned by espeak\'s own phoneme events; F0 by YIN, energy as log RMS.',
        f"Training: {state['step']} of {settings['steps']} steps in {state['seconds'] / 60:.0f} minutes, seed "
        f"{settings['seed']}; batches of {settings['batch']} windows of {settings['window'] / 40:g} s; AdamW, at most "
        f"{settings['rate']:g}, cosine; weights averaged over steps. No adversarial term.",
        f"Made again, up to rounding and the noise in espeak's breath, by `python -m training.voice --steps "
        f"{settings['steps']} --sentences {settings['sentences']} --seed {settings['seed']}`.",
        "Licence: Apache-2.0, as Kokoro's own. espeak-ng is GPL-3.0; nothing of its code or data is in these files.",
    )
    return f"""# kokoro-mini

Kokoro's architecture, narrow: {count / 1e6:.2f} M parameters, float16, {size / 1e6:.2f} MB. It exists so that exports
of Kokoro can be heard and transcribed where no published weights can be had. It is a test signal, not a product.

**The voice is espeak-ng's.** Every sample it learnt from was synthesised by espeak-ng 1.52 (package `espeakng-loader`),
and at its best it sounds like that formant synthesiser. No recording of a person was used.

{bullets(facts)}

## Distance from espeak on {JUDGED} held-out sentences per voice

| voice | log-mel L1, true prosody (nepers) | duration L1 (frames of 25 ms) |
| --- | --- | --- |
{rows}

{losses_table(state["history"], WEIGHTS)}"""
