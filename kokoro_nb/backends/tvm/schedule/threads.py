"""How many threads TVM computes on: as many as PyTorch, unless the environment says otherwise.

On x86 TVM halves the number of processors, as if every two were one core with two threads (`MaxConcurrency` in its
`threading_backend.cc`): where each is a core of its own, as on most rented machines, half of them would stand still.
"""

import os
import sys

CHOSEN = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")  # which TVM reads, in this order, when it computes for the first time


def use_threads_of_pytorch() -> None:
    """Have TVM compute on as many threads as PyTorch does now; to be called before it computes in this process.

    Where PyTorch is not loaded, on as many as there are processors.
    """
    if not any(name in os.environ for name in CHOSEN):
        torch = sys.modules.get("torch")
        os.environ[CHOSEN[0]] = str(torch.get_num_threads() if torch else os.cpu_count() or 1)
