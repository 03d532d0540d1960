"""The languages that have a snippet, and the small program that calls it in each."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SNIPPETS = Path(__file__).parent / "snippets"

_CPP = """#include "two_stages.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

using Row = std::vector<std::int64_t>;

void tell(bool right, const char* what, const char* name) {
    std::printf("%s %s: %s\\n", right ? "ok" : "wrong", what, name);
    std::fflush(stdout);
}

std::int64_t room_for(std::int64_t frames) {
    try {
        return two_stages::bucket(Row{ROOMS}, frames);
    } catch (const std::out_of_range&) {
        return -1;
    }
}

void examine(const char* name, const Row& durations, const Row& index, std::int64_t room, std::size_t samples) {
    const auto frames = static_cast<std::int64_t>(index.size());
    tell(two_stages::alignment(durations) == index, "alignment", name);
    tell(room_for(frames) == room, "bucket", name);
    if (room < 0) return;
    std::vector<float> audio(static_cast<std::size_t>(room) * PER_FRAME);
    std::iota(audio.begin(), audio.end(), 0.0f);
    const auto cut = two_stages::trimmed(audio, frames, PER_FRAME);
    tell(cut.size() == samples && std::equal(cut.begin(), cut.end(), audio.begin()), "trimming", name);
}

int main() {
CASES
}
"""

_KOTLIN = """fun tell(right: Boolean, what: String, name: String) {
    println("${if (right) "ok" else "wrong"} $what: $name")
}

fun roomFor(frames: Int): Int = try { bucket(intArrayOf(ROOMS), frames) } catch (none: IllegalArgumentException) { -1 }

fun examine(name: String, durations: LongArray, index: IntArray, room: Int, samples: Int) {
    tell(alignment(durations).contentEquals(index), "alignment", name)
    tell(roomFor(index.size) == room, "bucket", name)
    if (room < 0) return
    val audio = FloatArray(room * PER_FRAME) { it.toFloat() }
    tell(trimmed(audio, index.size, PER_FRAME).contentEquals(audio.copyOf(samples)), "trimming", name)
}

fun main() {
CASES
}
"""

_SWIFT = """func tell(_ right: Bool, _ what: String, _ name: String) {
    print(right ? "ok" : "wrong", "\\(what): \\(name)")
}

func examine(_ name: String, _ durations: [Int], _ index: [Int], _ room: Int, _ samples: Int) throws {
    tell(try alignment(durations) == index, "alignment", name)
    tell(((try? bucket([ROOMS], frames: index.count)) ?? -1) == room, "bucket", name)
    if room < 0 { return }
    let audio = (0..<(room * PER_FRAME)).map { Float($0) }
    tell(try trimmed(audio, frames: index.count, samplesPerFrame: PER_FRAME) == Array(audio.prefix(samples)),
         "trimming", name)
}

CASES
"""


@dataclass(frozen=True)
class Language:
    """How a snippet is compiled and called.

    Attributes
    ----------
    snippet : str
        Its file in `SNIPPETS`.
    compilers, needs : tuple of str
        Programs of which the first that is here is taken, and others without which nothing runs.
    main : tuple of (str, str)
        Name and text of the program that calls it; ``CASES``, ``ROOMS`` and ``PER_FRAME`` stand for the vectors.
    case : str
        One call in it.
    compile, run : tuple of str
        Arguments of the compiler, and the command that runs what it made.
    """

    snippet: str
    compilers: tuple[str, ...]
    needs: tuple[str, ...]
    main: tuple[str, str]
    case: str
    compile: tuple[str, ...]
    run: tuple[str, ...]


_STRICT = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror")
LANGUAGES: Mapping[str, Language] = {
    "C++": Language(
        "two_stages.hpp",
        ("c++", "g++", "clang++"),
        (),
        ("main.cpp", _CPP),
        '    examine("{name}", {{{durations}}}, {{{alignment}}}, {bucket}, {samples});',
        (*_STRICT, "main.cpp", "-o", "check"),
        ("./check",),
    ),
    "Kotlin": Language(
        "TwoStages.kt",
        ("kotlinc",),
        ("java",),
        ("main.kt", _KOTLIN),
        '    examine("{name}", longArrayOf({durations}), intArrayOf({alignment}), {bucket}, {samples})',
        ("TwoStages.kt", "main.kt", "-include-runtime", "-d", "check.jar"),
        ("java", "-jar", "check.jar"),
    ),
    "Swift": Language(
        "TwoStages.swift",
        ("swiftc",),
        (),
        ("main.swift", _SWIFT),
        'try examine("{name}", [{durations}], [{alignment}], {bucket}, {samples})',
        ("TwoStages.swift", "main.swift", "-o", "check"),
        ("./check",),
    ),
}


def available(language: str) -> str | None:
    """Return None if `language`, a key of `LANGUAGES`, can be compiled here, else the reason why not."""
    about = LANGUAGES[language]
    absent = [name for name in about.needs if shutil.which(name) is None]
    if not any(shutil.which(name) for name in about.compilers):
        absent = [" or ".join(about.compilers), *absent]
    return f"{language} cannot be compiled here: there is no {' and no '.join(absent)}." if absent else None
