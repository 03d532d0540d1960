"""Benchmarks: every figure a ratio within one run, the programs in turn, with its spread, saved for each machine."""

from types import MappingProxyType

SUITES = MappingProxyType(
    {
        "decoders": "time, memory and error of the decoder on each backend, against eager and the machine's best",
        "text-to-audio": "time and memory from text to audio by two exported stages, against the model in PyTorch",
        "profiles": "where each backend spends its time, by family of operators",
        "graph-patches": "what other patches of the graph change in time, memory and error",
        "omissions": "what can be left out of the decoder, or computed once",
        "streaming": "how soon a first part of the audio is ready, and whether parts join",
        "quantisation": "time and error in int8, int4 and bfloat16, and which convolutions tolerate int8",
        "word-error-rate": "Whisper's word error rate in each of those precisions",
        "trace-overhead": "time and memory of recording every operator, against a plain run",
        "sessions": "throughput and memory of several sessions at once, in one process and in several",
        "scale": "time by length, threads and utterances at once, and where each backend leaves the machine's best",
        "localisation-cost": "time to find one wrong operator, by the number of operators",
        "inspection": "time and memory of inspecting a file, by its number of nodes and of the whole model",
        "notebooks": "where the time of each notebook went in its last run, by kind of work",
        "tests": "where the time of each test file went in the last run of make test, by kind of work",
        "startup": "time of imports, package by package, and of exports made and found again in the cache",
    }
)
DEFAULT_SUITES = ("decoders", "text-to-audio", "profiles")
