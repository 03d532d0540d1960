"""The kernel that notebooks are run in: IPython's own, told where native code aborts and kept from import noise."""

import faulthandler
import logging
import os

# They warn at import of extensions that this machine cannot use, which is not about the notebook's subject.
NOISY = ("torchao", "torch.utils._pytree")


def main() -> None:
    """Start the kernel in this process, as ``python -m ipykernel_launcher`` would."""
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.ERROR)
    # A copy of standard error, for the kernel turns the original into output of the notebook.
    faulthandler.enable(os.fdopen(os.dup(2), "w"), all_threads=False)
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()


if __name__ == "__main__":
    main()
