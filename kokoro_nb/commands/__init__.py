"""The command line: a module for each subcommand, and what several of them import."""

from importlib.util import find_spec


def import_models() -> None:
    """Import the models' packages, which print while they are imported; nothing where Kokoro's is not installed."""
    from kokoro_nb.backends.base import quietly

    if find_spec("kokoro") is None:
        return
    with quietly():
        import kokoro_nb.models.kokoro  # noqa: F401
