"""Noise, its instance norm, and a fault that puts a value into channels."""

import numpy as np


def noise(shape=(1, 4, 32), seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def normed(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def with_channels(channels, value):
    def fault(result):
        result = result.copy()
        result[:, list(channels)] = value
        return result

    return fault
