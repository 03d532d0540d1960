"""The speech model: weights, voices, text, patches, and the cuts through it."""
