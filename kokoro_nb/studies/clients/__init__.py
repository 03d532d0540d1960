"""20 asks whether the programs that people run speak our files as PyTorch speaks."""

from kokoro_nb.studies.clients.contract_faults import contract_faults
from kokoro_nb.studies.clients.spoken_by_clients import CLIENTS, ClientSpeech, layouts, probed, spoken_by_clients
