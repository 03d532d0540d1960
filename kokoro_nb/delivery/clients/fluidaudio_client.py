"""FluidAudio: seven Core ML programs, a table of symbols, and a raw file for each voice."""

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, Programs, RowRule, TensorRule

ALBERT, POST_ALBERT, ALIGNMENT, PROSODY, NOISE, VOCODER, TAIL = (
    f"Kokoro{name}.mlpackage"
    for name in ("Albert", "PostAlbert", "Alignment", "Prosody", "Noise_v2", "Vocoder", "Tail_v2")
)
VOCAB, FIRST_VOICE = "vocab.json", "af_heart.bin"  # the second is the name that the client asks for


def programs(bert: int | str, hidden: int | str, wide: int | str, near: int | str) -> Programs:
    """Return the signatures, in the order in which the stages run.

    Parameters
    ----------
    bert, hidden, wide, near : int or str
        Width of BERT, of the text features, of the generator at its first rate and at its second: 768, 512, 256 and 128
        in the published model; a string where any will do.
    """
    ids, mask = (TensorRule(name, "int32", (1, "tokens")) for name in ("input_ids", "attention_mask"))
    bert_dur, style_s = (
        TensorRule("bert_dur", "float16", (1, "tokens", bert)),
        TensorRule("style_s", "float16", (1, 128)),
    )
    features = hidden + 128 if isinstance(hidden, int) else "features"
    d, t_en = TensorRule("d", "float16", (1, "tokens", features)), TensorRule("t_en", "float16", (1, hidden, "tokens"))
    en, asr = TensorRule("en", "float16", (1, features, "frames")), TensorRule("asr", "float16", (1, hidden, "frames"))
    f0, n = (TensorRule(name, "float32", (1, "pitches")) for name in ("F0", "N"))
    curve, energy = TensorRule("F0_curve", "float32", (1, "pitches")), TensorRule("N_pred", "float16", (1, "pitches"))
    half_curve, timbre = (
        TensorRule("F0_curve", "float16", (1, "pitches")),
        TensorRule("style_timbre", "float32", (1, 128)),
    )
    half_timbre = TensorRule("style_timbre", "float16", (1, 128))
    sources = [("x_source_0", (1, wide, "slow")), ("x_source_1", (1, near, "fast"))]
    x_0, x_1 = (TensorRule(name, "float32", shape) for name, shape in sources)
    half_0, half_1 = (TensorRule(name, "float16", shape) for name, shape in sources)
    x_pre = TensorRule("x_pre", "float32", (1, near, "fast"))
    return {
        ALBERT: ((ids, mask), (bert_dur,)),
        POST_ALBERT: (
            (bert_dur, ids, style_s, TensorRule("speed", "float16", (1,)), mask),
            (TensorRule("duration", "float32", (1, "tokens")), d, t_en),
        ),
        ALIGNMENT: ((TensorRule("pred_dur", "int32", (1, "tokens")), d, t_en), (en, asr)),
        PROSODY: ((en, style_s), (f0, n)),
        NOISE: ((curve, timbre), (x_0, x_1)),
        VOCODER: (
            (asr, half_curve, energy, half_0, half_1, half_timbre),
            (TensorRule("anchor", "float32", (1,)), x_pre),
        ),
        TAIL: ((x_pre,), (TensorRule("audio", "float32", ("samples",)),)),
    }


FLUIDAUDIO = ClientContract(
    client="fluidaudio",
    versions="0.15",
    programs=programs("bert", "hidden", "wide", "near"),
    row=RowRule("characters - 1, at most the last", lambda ids, symbols, rows: int(np.clip(symbols, 1, rows)) - 1),
    files=(VOCAB, FIRST_VOICE),
    audio="nothing that is known",
    ranges={
        "tokens": (2, 512, 1),
        "frames": (1, 2000, 1),
        "pitches": (2, 4000, 2),
        "slow": (20, 40_000, 20),
        "fast": (121, 240_001, 120),
    },
    form="Core ML",
)
