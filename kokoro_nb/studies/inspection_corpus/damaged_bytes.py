"""Damage that looks at no format: a file cut off, its bits turned, something else under its name.

Each function takes the path of a healthy file and a number that varies the damage, and returns the path to inspect.
"""

import shutil
from pathlib import Path

import numpy as np

CUTS = (0.01, 0.6, 0.999)  # share of the bytes that is left
FLIPS = (1, 16, 256)  # bits that are turned
OTHER = {".onnx": ".pt2", ".pt2": ".onnx", ".pte": ".mlmodel", ".mlmodel": ".pte", ".mlpackage": ".pt2"}


def main_part(path: Path) -> Path:
    """Return the file that says what the model computes: of a package one inside."""
    return path / "Data" / "com.apple.CoreML" / "model.mlmodel" if path.is_dir() else path


def cut_off(path: Path, number: int) -> Path:
    """Cut it off."""
    part = main_part(path)
    data = part.read_bytes()
    part.write_bytes(data[: max(1, int(len(data) * CUTS[number]))])
    return path


def bits_flipped(path: Path, number: int) -> Path:
    """Turn some of its bits."""
    part = main_part(path)
    data = bytearray(part.read_bytes())
    draw = np.random.default_rng(number)
    for place in draw.integers(len(data) * 8, size=FLIPS[number]):
        data[place // 8] ^= 1 << (place % 8)
    part.write_bytes(bytes(data))
    return path


def empty(path: Path, number: int) -> Path:
    """Leave nothing of it."""
    main_part(path).write_bytes(b"")
    return path


def text(path: Path, number: int) -> Path:
    """Put a text in its place, as a download that failed does."""
    main_part(path).write_text("<!DOCTYPE html><title>404 Not Found</title>\n" * 40, encoding="utf-8")
    return path


def folder(path: Path, number: int) -> Path:
    """Put an empty folder in its place."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.mkdir()
    return path


def wrong_extension(path: Path, number: int) -> Path:
    """Call it what it is not."""
    return path.rename(path.with_suffix(OTHER[path.suffix]))
