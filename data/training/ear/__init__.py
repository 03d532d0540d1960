"""The small ear: a model in openai-whisper's own format, trained on espeak-ng's speech over a closed vocabulary.

`tokens` says which of whisper's tokens it knows, `corpus` makes the clips, `batch` disturbs and collates them, `model`
is the network, `trainer` the run, `judge` measures, and `export` writes the file and its card.
"""
