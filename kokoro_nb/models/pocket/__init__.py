"""PocketTTS, built offline, and its steps as modules with explicit state: the other model that the workbook exports."""

import logging

import torch

_threads = torch.get_num_threads()
import pocket_tts  # noqa: E402, F401  # sets torch to one thread for the whole process

torch.set_num_threads(_threads)
# it warns of what is meant here: weights yet to be drawn, speech cut where the noise ends
logging.getLogger("pocket_tts.models.tts_model").setLevel(logging.ERROR)
