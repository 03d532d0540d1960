"""What most notebooks import, imported once: the process that does that is forked for each of them."""

import atexit
import gc
from contextlib import suppress
from importlib import import_module

from kokoro_nb.backends.base import quietly
from kokoro_nb.known_warnings import silence_known_warnings
from kokoro_nb.quick_imports import import_jsonschema
from kokoro_nb.rare_collections import collect_rarely

# None of them begins a thread, which a fork would not have; but for pyarrow's, of papermill, which sees to that itself.
NAMES = (
    *("papermill", "nbclient", "ipykernel.kernelapp", "matplotlib_inline.backend_inline", "matplotlib.pyplot"),
    *("torch", "torch.export", "torch.fx.experimental.proxy_tensor"),
    *("kokoro", "scipy.signal", "librosa", "onnx", "onnxscript", "executorch.exir"),
    *("kokoro_nb.models.kokoro", "kokoro_nb.models.case", "kokoro_nb.locate.survey", "kokoro_nb.reporting.show"),
)

import_jsonschema()
silence_known_warnings()
with quietly():
    for name in NAMES:
        with suppress(ImportError, OSError):  # the notebook that needs it says so
            import_module(name)
gc.collect()
gc.freeze()  # what is imported stays, and need not be looked through in each fork
collect_rarely()
atexit.register(gc.unfreeze)  # libraries complain of what is left over at the end
