"""Progress of a run: bars on a terminal, plain lines elsewhere."""

import sys
from typing import Any, TextIO


class Progress:
    """One bar for all notebooks and one for each that is running; without a terminal, a line as each begins and ends.

    Parameters
    ----------
    notebooks : int
        How many there are.
    stream : text stream, optional
        Where it is shown; standard error by default.
    """

    def __init__(self, notebooks: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._bars: dict[str, Any] = {}
        self._all = self._bar("all notebooks", notebooks, " notebooks")

    def begin(self, name: str, cells: int) -> None:
        """Show that the notebook `name` of so many cells has begun."""
        if self._all.disable:
            self.say(f"{name}: running, {cells} cells")
        else:
            self._bars[name] = self._bar(name, cells, " cells")

    def cell(self, name: str, index: int) -> None:
        """Show that the cell at `index` has begun, so that those before it are done."""
        if name in self._bars:
            self._bars[name].update(index - self._bars[name].n)

    def end(self, name: str, outcome: str) -> None:
        """Show that the notebook is done, with its outcome in words."""
        if name in self._bars:
            self._bars.pop(name).close()
        self.say(f"{name}: {outcome}")
        self._all.update()

    def refresh(self) -> None:
        """Show the time that has gone by."""
        for bar in (*list(self._bars.values()), self._all):  # others may begin meanwhile
            bar.refresh()

    def say(self, line: str) -> None:
        """Show one line above the bars."""
        self._all.write(line, file=self._stream)
        self._stream.flush()

    def close(self) -> None:
        """Take the bars away."""
        for bar in (*self._bars.values(), self._all):
            bar.close()

    def _bar(self, name: str, total: int, unit: str) -> Any:
        from tqdm import tqdm

        style = "{desc:<24.24} {bar} {n_fmt}/{total_fmt}{unit} {elapsed}"
        look: dict[str, Any] = {"leave": False, "mininterval": 0, "disable": None}  # without a terminal
        return tqdm(total=total, desc=name, unit=unit, file=self._stream, bar_format=style, **look)
