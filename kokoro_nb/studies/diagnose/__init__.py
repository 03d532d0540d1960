"""00 diagnoses one export from what is heard to what cures it: Kokoro's decoder, or a module of one's own."""

from kokoro_nb.studies.diagnose.diagnosed_subject import diagnosed_subject
from kokoro_nb.studies.diagnose.examination import examine
