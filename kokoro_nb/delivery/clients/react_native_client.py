"""react-native-executorch: two ExecuTorch programs, and a raw file for each voice."""

from dataclasses import replace

from kokoro_nb.delivery.clients.client_contract import ClientContract, Programs, RowRule, TensorRule, VoicesRule
from kokoro_nb.models.speaking import FEATURES

PREDICTOR, SYNTHESIZER = "duration_predictor_std.pte", "synthesizer_std.pte"
TOKENS, FRAMES, SAMPLES = (8, 128, 1), (16, 296, 1), (600 * 16, 600 * 296, 600)


def programs(tokens: int | str = "tokens") -> Programs:
    """Return both signatures; `tokens` is the number of tokens where it is fixed."""
    text = (TensorRule("tokens", "int64", (1, tokens)), TensorRule("text_mask", "bool", (1, tokens)))
    d = TensorRule("d", "float32", (1, tokens, FEATURES))
    style, speed = TensorRule("voice", "float32", (1, 128)), TensorRule("speed", "float32", (1,))
    indices, voice = TensorRule("indices", "int64", ("frames",)), TensorRule("voice", "float32", (1, 256))
    return {
        PREDICTOR: ((*text, style, speed), (TensorRule("durations", "int64", (tokens,)), d)),
        SYNTHESIZER: ((*text, indices, d, voice), (TensorRule("audio", "float32", (1, 1, "samples")),)),
    }


REACT_NATIVE = ClientContract(
    client="react-native-executorch",
    versions="0.10",
    known=("0.10", "0.9"),
    programs=programs(),
    by_position=True,
    voices=VoicesRule("voices/{voice}.bin", "raw", 510),
    row=RowRule("symbols - 1, at most 127 and the last", lambda ids, symbols, rows: min(symbols - 1, 127, rows - 1)),
    metadata={},
    files=(),
    max_tokens=TOKENS[1] - 2,
    min_speed=0.1,
    max_speed=3.0,
    opset=0,
    ir_version=0,
    stored=("float32",),
    audio="cuts behind the last sounding token, strips silence but for 50 ms, adds a pause after marks",
    raw="nothing of it can be switched off",
    ranges={"tokens": TOKENS, "frames": FRAMES, "samples": SAMPLES},
    form="ExecuTorch",
)
REACT_NATIVE_PADDED = replace(
    REACT_NATIVE, client="react-native-executorch-padded", known=("0.10",), programs=programs(TOKENS[1])
)
