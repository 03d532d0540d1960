"""Write the small ear in openai-whisper's format, with a card that says where it comes from and how well it hears."""

from pathlib import Path
from typing import Any

import torch

from kokoro_nb.listening.recogniser import load_whisper
from kokoro_nb.storage import atomic, write_text
from training.ear.batch import SILENT
from training.ear.ear_corpus import HELD_OUT_VOICES, PITCHES, RATES, SCRAMBLED, TRAINED
from training.ear.ear_judge import SENTENCES, EarScore, verdicts
from training.ear.ear_model import TERMS, checkpoint
from training.ear.ear_trainer import EarSettings
from training.ear.tokens import trained_tokens
from training.model_card import CARD, bullets, losses_table, require_size, with_earlier_sections
from training.sentences import TEMPLATES, VOCABULARY

MOST_BYTES = 16_000_000


def export_ear(state: dict[str, Any], folder: Path, count: int = SENTENCES) -> Path:
    """Write ``whisper_mini.pt`` (float16) and ``MODEL_CARD.md``.

    Parameters
    ----------
    state : dict
        The run's checkpoint; its averaged weights are written.
    folder : Path
        Replaced whole; sections of its card that the new one lacks stay, marked as measured before.
    count : int
        Held-out sentences on which the card's error rates are measured, with the very file that is written.

    Raises
    ------
    InputError
        If a weight cannot be held in float16, or the file is too large.
    """
    settings = EarSettings(**state["settings"])
    written = checkpoint(state["learner"] | state["average"], *settings.shape)
    with atomic(folder) as draft:
        draft.mkdir(parents=True)
        path = draft / "whisper_mini.pt"
        torch.save(written, path)
        size = path.stat().st_size
        require_size(size, MOST_BYTES)
        model = load_whisper(path)
        card = model_card(state, sum(p.numel() for p in model.parameters()), size, list(verdicts(model, count)))
        write_text(draft / CARD, with_earlier_sections(card, folder))
    return folder


def model_card(state: dict[str, Any], parameters: int, size: int, judged: list[EarScore]) -> str:
    """Return the card in Markdown."""
    s = EarSettings(**state["settings"])
    rows = "\n".join(f"| {v.signal} | {v.clips} | {v.word_error_rate:.1%} | {v.heard:.0%} |" for v in judged)
    facts = (
        f"Shape: width {s.width}, {s.heads} heads, {s.encoder} encoder and {s.decoder} decoder blocks, 80 mel bands, "
        "1500 positions, whisper's English tokenizer and front end.",
        f"It knows {len(VOCABULARY)} words and nothing else: {len(trained_tokens().ids)} of the 51 864 tokens were "
        "trained, the others have a logit of -100 whatever is heard. Any speech outside the vocabulary comes out as "
        "words of it.",
        f"Data: {s.clips} sentences of 2 to 8 words, {1 - SCRAMBLED:.0%} of them in {len(TEMPLATES)} patterns, the "
        f"others in random order, in {len(TRAINED)} variants of espeak's en-us at {RATES[0]} to {RATES[1]} words per "
        f"minute and pitches of {PITCHES[0]} to {PITCHES[1]}. One sentence in twenty and these voices were held out: "
        f"{', '.join(HELD_OUT_VOICES)}. kokoro-mini, which learnt from the first two of them, was never heard.",
        "On the mel spectrogram: stretched in time and over the bands, blurred, tilted, band-limited, masked, with "
        f"noise and changed level; {SILENT:.0%} of the clips are noise, hum, silence or frames in disorder, to be "
        "called no speech.",
        "Besides the transcript, the encoder is taught espeak's phonemes and words frame by frame, and the last "
        "cross-attention where each word is.",
        f"Training: {state['step']} of {s.steps} steps in {state['seconds'] / 60:.0f} minutes, seed {s.seed}; "
        f"{s.batch} clips a step on short windows; {s.full_batch} on whole windows of 30 s in one step of "
        f"{s.whole_every} and, in the last {s.last:.0%}, of 2; AdamW, at most {s.rate:g}, cosine; weights averaged "
        "over steps.",
        f"Made again, up to rounding and the noise in espeak's breath, by `python -m training.ear --steps "
        f"{s.steps} --clips {s.clips} --seed {s.seed}` and `--export data/whisper_mini`.",
        "Licence: Apache-2.0. openai-whisper, whose architecture and front end it uses, is MIT; espeak-ng is GPL-3.0, "
        "and nothing of its code or data is in these files.",
    )
    return f"""# whisper-mini

A small ear in openai-whisper's format: {parameters / 1e6:.2f} M parameters, float16, {size / 1e6:.2f} MB. It exists so
that exports of Kokoro can be transcribed where no published model can be had. It is a measuring instrument for one
vocabulary, not a recogniser of speech.

**It learnt from espeak-ng 1.52's speech alone** (package `espeakng-loader`). It has never heard a person.

{bullets(facts)}

## Word error rates on held-out sentences

Greedy decoding by `whisper.transcribe`; a transcript that is doubted counts as nothing heard. In the controls a high
rate is wanted.

| signal | clips | word error rate | believed |
| --- | --- | --- | --- |
{rows}

This ear and kokoro-mini learnt from one synthesiser, so its rates say nothing of how people would hear either. What a
recogniser that learnt from people identifies of kokoro-mini stands in the card there.

{losses_table(state["history"], TERMS)}"""
