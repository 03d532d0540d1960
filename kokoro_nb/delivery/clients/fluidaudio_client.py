"""FluidAudio: seven Core ML programs, a table of symbols, and a raw file for each voice."""

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, Programs, RowRule, signature

ALBERT, POST_ALBERT, ALIGNMENT, PROSODY, NOISE, VOCODER, TAIL = (
    f"Kokoro{name}.mlpackage"
    for name in ("Albert", "PostAlbert", "Alignment", "Prosody", "Noise_v2", "Vocoder", "Tail_v2")
)
VOCAB, FIRST_VOICE = "vocab.json", "af_heart.bin"  # the second is the name that the client asks for


SIGNATURES = {  # in the order in which the stages run
    ALBERT: "input_ids int32 1 tokens, attention_mask int32 1 tokens -> bert_dur float16 1 tokens bert",
    POST_ALBERT: """
        bert_dur float16 1 tokens bert, input_ids int32 1 tokens, style_s float16 1 128, speed float16 1,
        attention_mask int32 1 tokens
        -> duration float32 1 tokens, d float16 1 tokens features, t_en float16 1 hidden tokens
    """,
    ALIGNMENT: """
        pred_dur int32 1 tokens, d float16 1 tokens features, t_en float16 1 hidden tokens
        -> en float16 1 features frames, asr float16 1 hidden frames
    """,
    PROSODY: "en float16 1 features frames, style_s float16 1 128 -> F0 float32 1 pitches, N float32 1 pitches",
    NOISE: """
        F0_curve float32 1 pitches, style_timbre float32 1 128
        -> x_source_0 float32 1 wide slow, x_source_1 float32 1 near fast
    """,
    VOCODER: """
        asr float16 1 hidden frames, F0_curve float16 1 pitches, N_pred float16 1 pitches,
        x_source_0 float16 1 wide slow, x_source_1 float16 1 near fast, style_timbre float16 1 128
        -> anchor float32 1, x_pre float32 1 near fast
    """,
    TAIL: "x_pre float32 1 near fast -> audio float32 samples",
}


def programs(**widths: int) -> Programs:
    """Return the signatures.

    Parameters
    ----------
    **widths : int
        ``bert``, ``hidden``, ``features``, ``wide``, ``near``: of BERT, of the text features, of these with the style,
        of the generator at its first rate and at its second. 768, 512, 640, 256 and 128 in the published model; of
        those that are left out any will do.
    """
    return {name: signature(text, **widths) for name, text in SIGNATURES.items()}


def of_frames(frames: int) -> dict[str, int]:
    """Return the sizes that so many frames have on each axis."""
    return {"frames": frames, "pitches": 2 * frames, "slow": 20 * frames, "fast": 120 * frames + 1}


LEAST, MOST, STEP = of_frames(1), of_frames(2000), {**of_frames(1), "fast": 120}
FLUIDAUDIO = ClientContract(
    client="fluidaudio",
    versions="0.15",
    programs=programs(),
    row=RowRule("characters - 1, at most the last", lambda ids, symbols, rows: int(np.clip(symbols, 1, rows)) - 1),
    files=(VOCAB, FIRST_VOICE),
    audio="nothing that is known",
    ranges={"tokens": (2, 512, 1), **{axis: (LEAST[axis], MOST[axis], STEP[axis]) for axis in STEP}},
    form="Core ML",
)
