"""How the processes of notebooks begin: forked from one that has done their imports, where there are enough of them."""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext
from unittest.mock import patch

ENOUGH = 3  # notebooks for which importing everything once takes less time than importing in each what it needs

_begun: list[Mapping[str, str]] = []  # settings of the server of this process, once there is one


def start_context(notebooks: int, settings: Mapping[str, str]) -> tuple[ForkServerContext | SpawnContext, bool]:
    """Return the way in which processes are to begin, and whether they begin with the imports done.

    Parameters
    ----------
    notebooks : int
        How many are to be executed.
    settings : mapping
        Variables of the environment that libraries read when they are imported.
    """
    # elsewhere a process may not be forked once it has loaded the system's libraries
    if notebooks < ENOUGH or sys.platform != "linux" or (_begun and _begun[0] != settings):
        return multiprocessing.get_context("spawn"), False
    context = multiprocessing.get_context("forkserver")
    if not _begun:
        context.set_forkserver_preload(["kokoro_nb.reporting.warm_imports"])
        _begun.append(dict(settings))
    with patch.dict(os.environ, settings):
        forkserver.ensure_running()  # anew, where it has died
    return context, True
