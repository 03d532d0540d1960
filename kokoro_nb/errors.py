"""The one error that users are meant to read."""


class InputError(ValueError):
    """Bad input, told in one sentence: what is wrong and how to mend it.

    The command line prints the sentence alone and exits with status 2.
    """
