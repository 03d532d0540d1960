import io

from kokoro_nb.reporting.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drive(stream):
    progress = Progress(2, stream)
    progress.begin("01_a", 5)
    progress.begin("02_b", 3)
    progress.cell("01_a", 4)
    progress.end("01_a", "passed in 1.0 s")
    progress.begin("03_c", 1)
    progress.end("02_b", "failed in 2.0 s: ValueError: x")
    progress.close()
    return stream.getvalue()


def test_a_terminal_gets_bars_and_without_one_there_are_plain_lines():
    assert drive(io.StringIO()).splitlines() == [
        "01_a: running, 5 cells",
        "02_b: running, 3 cells",
        "01_a: passed in 1.0 s",
        "03_c: running, 1 cells",
        "02_b: failed in 2.0 s: ValueError: x",
    ]
    shown = drive(Terminal())
    assert all(text in shown for text in ("all notebooks", "2/2 notebooks", "4/5 cells", "01_a: passed in 1.0 s"))
