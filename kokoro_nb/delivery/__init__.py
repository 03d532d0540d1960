"""Kokoro as programs of static shape that an application ships: what is in the folder, and how speech is made of it.

Two stages: what is computed before the number of frames is known, with room for so many tokens, and pitch, energy and
decoder, with room for so many frames, once for each bucket. Each program takes the true length as an input and is exact
for it (`kokoro_nb.models.padding`); what lies between them is NumPy.
"""

from kokoro_nb.delivery.contract import Contract, read_contract
from kokoro_nb.delivery.export import SECONDS, TOKENS, deliver, delivered_folder
from kokoro_nb.delivery.pipeline import TwoStages

__all__ = ["SECONDS", "TOKENS", "Contract", "TwoStages", "deliver", "delivered_folder", "read_contract"]
