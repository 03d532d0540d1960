import ctypes

import psutil
import pytest

from kokoro_nb.backends.artefacts import give_back_memory


def test_freed_memory_goes_back_to_the_system():
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library gives it back by itself, or not at all")
    held = [bytearray(100_000) for _ in range(4000)]  # below what is given back at once
    last, before = bytearray(100_000), psutil.Process().memory_info().rss
    held.clear()
    give_back_memory()
    assert before - psutil.Process().memory_info().rss > 0.9 * 4000 * 100_000
    assert len(last) == 100_000, "what lies above the freed memory, and kept it"
