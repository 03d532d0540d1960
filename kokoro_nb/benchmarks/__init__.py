"""Benchmarks: every figure a ratio within one run, the programs in turn, with its spread."""

SUITES = {
    "decoders": "time, memory and error of the decoder on each backend, against eager and the machine's best",
    "text-to-audio": "time and memory from text to audio by two exported stages, against the model in PyTorch",
    "profiles": "where each backend spends its time, by family of operators",
    "inspection": "time and memory of inspecting a file, that of the whole model as kokoro-onnx gets it",
}
DEFAULT_SUITES = ("decoders", "text-to-audio", "profiles")
