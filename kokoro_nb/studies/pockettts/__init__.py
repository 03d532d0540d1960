"""08: what it takes to port a model that speaks frame by frame: trials, steps on every runtime, and mistakes."""

from kokoro_nb.studies.pockettts.frame_by_frame import convert_whole, load_case, loops, mistakes, reference
from kokoro_nb.studies.pockettts.port_trials import trials
