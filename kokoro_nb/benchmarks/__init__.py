"""Benchmarks: every figure a ratio within one run, the programs in turn, with its spread."""

SUITES = {
    "decoders": "time, memory and error of the decoder on each backend, against eager",
    "text-to-audio": "time and memory from text to audio by two exported stages, against the model in PyTorch",
    "profiles": "where each backend spends its time, by family of operators",
    "inspection": "time and memory of inspecting the whole model, against one evaluation of it in float64",
}
DEFAULT_SUITES = ("decoders", "text-to-audio", "profiles")
