"""The one error that users are meant to read, and what a request to end becomes."""

from signal import Signals


class InputError(ValueError):
    """Bad input, told in one sentence: what is wrong and how to mend it.

    The command line prints the sentence alone and exits with status 2.
    """


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
        return f"ended by {Signals(self.number).name}"
