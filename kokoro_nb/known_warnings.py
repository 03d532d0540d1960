"""Messages that packages log on every import and that say nothing about the work: kept off the screen, and only these.

torchao tries to load extensions that are built for other machines, and registers an enumeration with torch in a way
that torch is giving up.
"""

import logging
import re
import warnings

KNOWN = {
    "torchao": re.compile(r"Failed to load \S+\.so: "),
    "torch.utils._pytree": re.compile(r"<enum '\w+'> is an Enum subclass and is now natively supported"),
}  # name of a logger -> how the message begins


def silence_known_warnings() -> None:
    """Drop the messages in `KNOWN` from now on; every other message of these loggers is shown as before."""
    # copying a program goes through torch's own deprecated check
    warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
    for name in KNOWN:
        logger = logging.getLogger(name)
        if _is_news not in logger.filters:
            logger.addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not KNOWN[record.name].match(record.getMessage())
