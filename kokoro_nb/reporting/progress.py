"""Progress of a run: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from kokoro_nb.reporting.readable import duration


class Progress:
    """One bar for all notebooks and one for each that is running; without a terminal, a line as each begins and ends.

    Parameters
    ----------
    expected : mapping
        Name of each notebook -> seconds that it took when it last ran here, None if that is not known.
    jobs : int
        How many run at once.
    stream : text stream, optional
        Where it is shown; standard error by default.
    """

    def __init__(self, expected: Mapping[str, float | None], jobs: int = 1, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._left, self._jobs = dict(expected), jobs
        self._began: dict[str, float] = {}
        self._bars: dict[str, Any] = {}
        self._all = self._bar("all notebooks", len(expected), " notebooks", 0)

    def begin(self, name: str, cells: int) -> None:
        """Show that the notebook `name` of so many cells has begun."""
        self._began[name] = time.monotonic()
        seconds = self._left.get(name)
        about = "" if seconds is None else f", about {duration(seconds)} by its last run here"
        if self._all.disable:
            return self.say(f"{name}: running, {cells} cells{about}")
        taken = {bar.pos for bar in self._bars.values()}
        position = next(row for row in range(1, len(taken) + 2) if -row not in taken)
        self._bars[name] = self._bar(name, cells, " cells", position)
        return None

    def cell(self, name: str, index: int) -> None:
        """Show that the cell at `index` has begun, so that those before it are done."""
        if name in self._bars:
            self._bars[name].update(index - self._bars[name].n)

    def end(self, name: str, outcome: str) -> None:
        """Show that the notebook is done, with its outcome in words."""
        if name in self._bars:
            self._bars.pop(name).close()
        self._left.pop(name, None)
        left = self.seconds_left()
        self.say(f"{name}: {outcome}" + (f"; about {duration(left)} left in all" if left else ""))
        self._all.update()

    def seconds_left(self) -> float | None:
        """Return how long all that is left will take by its last runs here; None if one of them is not known."""
        now = time.monotonic()
        left = []
        for name, seconds in self._left.items():
            if seconds is None:
                return None
            left.append(seconds - (now - self._began[name]) if name in self._began else seconds)
        left = [seconds if seconds > 0 else 0.0 for seconds in left]
        return max(sum(left) / self._jobs, *left) if left else 0.0

    def refresh(self) -> None:
        """Show the time that has gone by, and how much is left."""
        left = self.seconds_left()
        self._all.set_postfix_str("" if left is None else f"about {duration(left)} left", refresh=False)
        for bar in (*self._bars.values(), self._all):
            bar.refresh()

    def say(self, line: str) -> None:
        """Show one line above the bars."""
        self._all.write(line, file=self._stream)
        self._stream.flush()

    def close(self) -> None:
        """Take the bars away."""
        for bar in (*self._bars.values(), self._all):
            bar.close()

    def _bar(self, name: str, total: int, unit: str, position: int) -> Any:
        from tqdm import tqdm

        style = "{desc:<24.24} {bar} {n_fmt}/{total_fmt}{unit} {elapsed}{postfix}"
        return tqdm(
            total=total,
            desc=name,
            unit=unit,
            position=position,
            leave=False,
            file=self._stream,
            bar_format=style,
            mininterval=0,
            disable=None,  # without a terminal
        )
