"""08: PocketTTS cut into steps, on runtimes and against its own package; and the mistakes of an earlier port."""

from kokoro_nb.studies.pockettts.port_mistakes import mistakes
from kokoro_nb.studies.pockettts.step_loops import load_case, loops, reference, whole_model
