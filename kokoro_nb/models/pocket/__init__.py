"""PocketTTS, built offline, and its steps as modules with explicit state: the other model that the workbook exports."""

import torch

_threads = torch.get_num_threads()
import pocket_tts  # noqa: E402, F401  # sets torch to one thread for the whole process

torch.set_num_threads(_threads)
