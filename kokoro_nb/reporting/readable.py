"""Times and sizes as one reads them."""


def clock(iso: str) -> str:
    """Return an ISO 8601 time in UTC as one reads it.

    >>> clock("2026-11-21T09:44:07+00:00")
    '2026-11-21 09:44 UTC'
    """
    return f"{iso[:10]} {iso[11:16]} UTC"


def duration(seconds: float) -> str:
    """Return a wall time as one reads it.

    >>> duration(4.21), duration(192.6)
    ('4.2 s', '3 min 13 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def size_text(count: int) -> str:
    """Return a number of bytes as one reads it.

    >>> size_text(812), size_text(1_540_000), size_text(5_230_000_000)
    ('1 kB', '1.5 MB', '5.2 GB')
    """
    if count < 1e6:
        return f"{max(1, round(count / 1e3))} kB"
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
