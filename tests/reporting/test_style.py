import subprocess
import sys

import matplotlib

from kokoro_nb.reporting.style import new_figure


def test_the_background_is_opaque_white_whatever_the_page_sets_and_settings_do_not_leak():
    before = dict(matplotlib.rcParams)
    with (
        matplotlib.rc_context({"figure.facecolor": "none"}),
        new_figure(1, "title", "hexgrad/Kokoro-82M") as figure,
        new_figure(1, "", "") as bare,
    ):
        assert matplotlib.rcParams["font.size"] == 9
        assert figure.get_facecolor() == (1, 1, 1, 1)
    assert dict(matplotlib.rcParams) == before
    assert (figure.get_supxlabel(), figure.get_suptitle()) == ("weights: hexgrad/Kokoro-82M", "title")
    assert bare.get_supxlabel() == ""


def test_no_pyplot_and_no_early_import():
    program = """
import sys
from kokoro_nb.reporting import charts, figures
assert "matplotlib" not in sys.modules and "librosa" not in sys.modules
import numpy as np
charts.heat_map({"a": {"b": 1.0}}).draw_without_rendering()
figures.waveforms(np.ones(9), np.zeros(9), 24000).draw_without_rendering()
assert "matplotlib.pyplot" not in sys.modules
print("clean")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("clean\n", 0), done.stderr
