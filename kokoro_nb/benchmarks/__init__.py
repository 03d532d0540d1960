"""Benchmarks: every figure a ratio within one run, the programs in turn, with its spread, kept for each machine."""
