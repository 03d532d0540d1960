"""Imports that print, kept quiet."""


def import_models() -> None:
    """Import the models' packages, which print while they are imported."""
    from kokoro_nb.backends.base import quietly

    with quietly():
        import kokoro_nb.models.kokoro  # noqa: F401
