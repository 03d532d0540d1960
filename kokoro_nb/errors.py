"""The errors that users are meant to read, and what a request to end becomes."""

import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module, metadata
from threading import current_thread, main_thread
from typing import Any, TypeVar

WORD = 300  # characters: a path of that length is still shown whole
_Error = TypeVar("_Error", bound=BaseException)
BROUGHT_BY = {"PIL": "pillow", "tvm": "apache-tvm", "whisper": "openai-whisper", "yaml": "pyyaml"}  # by another name


class InputError(ValueError):
    """Bad input, in one sentence: what is wrong and how to mend it.

    The command line prints the sentence alone and exits with status 2. What a damaged file has put into it neither
    breaks the line nor fills the screen.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(re.sub(r"\s*[\n\r]\s*", " ", re.sub(rf"\S{{{WORD},}}", _shortened, sentence)))


class ChecksError(AssertionError):
    """Checks of a notebook failed: raised once, by ``Logbook.close``, when everything has been shown and saved."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython prints in place of a traceback: the stack of ``close`` says nothing about the checks."""
        return [f"{type(self).__name__}: {self}"]


class Terminated(KeyboardInterrupt):
    """The process was asked to end: SIGTERM, as by ``docker stop``, or SIGHUP, as by a terminal that closes.

    Attributes
    ----------
    number : int
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"ended by {signal.Signals(self.number).name}"


@contextmanager
def signals_handled(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Have signals handled otherwise inside; on another thread than the main one nothing is changed, nor handled."""
    before = {one: signal.signal(one, handler) for one in numbers if current_thread() is main_thread()}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


def absent_package(error: BaseException) -> InputError | None:
    """Return the sentence that names the extra to install, where `error` says that what it brings is not there."""
    name = str(error.name if isinstance(error, ModuleNotFoundError) else "")
    wanted = re.escape(BROUGHT_BY.get(name.partition(".")[0], name.partition(".")[0])).replace("_", "[-_]")
    lines = ""
    with suppress(metadata.PackageNotFoundError):  # run from its folder, and not installed
        lines = "\n".join(metadata.requires("kokoro_nb") or ())
    by = re.search(rf"""^{wanted}(?![\w-]).*extra == ["']([\w-]+)""", lines, re.MULTILINE | re.IGNORECASE)
    return InputError(f"{name} is not installed; install it with pip install 'kokoro_nb[{by[1]}]'.") if by else None


def undocumented(owner: Any, name: str, lost: str, seen: Mapping[str, tuple[str, str]]) -> Any:
    """Return what another package has and does not document: an attribute of an object, or of a module by its path.

    Raises
    ------
    InputError
        If this version of it has not: what is `lost` for that, and the package and versions that it was `seen` in.
    """
    try:
        return getattr(import_module(owner) if isinstance(owner, str) else owner, name)
    except (ImportError, AttributeError) as error:
        if getattr(error, "name", "") == str(owner).partition(".")[0]:  # the package itself is not there
            raise
        ((package, (first, last)),) = seen.items()
        have = f"{package} {metadata.version(package)} has no {name}, which {first} to {last} have"
        raise InputError(f"{lost}: {have}; install one of these.") from error


def noted(error: _Error, note: str) -> _Error:
    """Return an error with a note on what else is known of it, as `BaseException.add_note` of Python 3.11 makes one."""
    if note:
        error.__notes__ = [*getattr(error, "__notes__", ()), note]
    return error


def one_line(error: BaseException) -> str:
    """Return class and text of an error, on one line of at most `WORD` characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:WORD]


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][: WORD // 2]}…{word[0][-20:]}"
