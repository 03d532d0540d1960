"""The kernel that notebooks are run in: IPython's own, with crash reports and without import noise."""

import faulthandler
import os

from kokoro_nb.known_warnings import silence_known_warnings


def main() -> None:
    """Start the kernel in this process, as ``python -m ipykernel_launcher`` would."""
    silence_known_warnings()
    # A copy of standard error, for the kernel turns the original into output of the notebook.
    faulthandler.enable(os.fdopen(os.dup(2), "w"), all_threads=False)
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance()


if __name__ == "__main__":
    main()
