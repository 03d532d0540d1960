from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kokoro_nb.errors import InputError
from kokoro_nb.reporting import selection
from kokoro_nb.reporting.selection import find_notebooks, notebooks_folder, require_kinds
from tests.refusals import refused


@pytest.fixture
def folder(tmp_path):
    for name in ("01_patching", "02_export", "03_decoder_nan", "draft"):
        nbformat.write(new_notebook(), tmp_path / f"{name}.ipynb")
    return tmp_path


def names(paths):
    return [path.stem for path in paths]


def test_notebooks_are_found_by_glob_and_selected_in_order(folder, tmp_path_factory):
    assert names(find_notebooks(folder=folder)) == ["01_patching", "02_export", "03_decoder_nan"]
    chosen = find_notebooks(["03_decoder_nan", "01", "01_patching.ipynb"], folder)
    assert names(chosen) == ["01_patching", "03_decoder_nan"]
    with pytest.raises(InputError, match=r"no notebook '07'; there are: 01_patching, 02_export, 03_decoder_nan"):
        find_notebooks(["01", "07"], folder)
    refused("holds no notebook", find_notebooks, folder=tmp_path_factory.mktemp("empty"))


@pytest.fixture
def own(tmp_path_factory, monkeypatch):
    """A working directory outside the project with a notebook of one's own in it."""
    here = tmp_path_factory.mktemp("own")
    monkeypatch.chdir(here)
    nbformat.write(new_notebook(), "01_mine.ipynb")
    return here


def test_a_path_and_a_name_of_the_working_directory_go_before_the_projects(folder, own):
    nbformat.write(new_notebook(), own / "02_export.ipynb")
    for wanted in ("02_export.ipynb", str(own / "02_export.ipynb"), "02_export"):
        assert [path.resolve() for path in find_notebooks([wanted], folder)] == [own / "02_export.ipynb"]
    assert find_notebooks([str(folder / "draft.ipynb")], folder) == [folder / "draft.ipynb"]
    assert find_notebooks(["01_mine", "03"], folder) == [folder / "03_decoder_nan.ipynb", own / "01_mine.ipynb"]
    with pytest.raises(InputError, match="Two of the selected notebooks are named 02_export"):
        find_notebooks([str(folder / "02_export.ipynb"), "02_export.ipynb"], folder)


def test_away_from_any_project_a_path_is_enough(own, monkeypatch):
    monkeypatch.setattr(selection, "PACKAGE", own)
    assert find_notebooks(["01_mine.ipynb"]) == [Path("01_mine.ipynb")]
    refused("change to a checkout", find_notebooks)
    (own / "pyproject.toml").write_text('[project]\nname = "kokoro_nb"\n')
    (own / "notebooks").mkdir()
    monkeypatch.chdir(own / "notebooks")
    assert notebooks_folder() == own / "notebooks", "the project's around the working directory"


def test_a_value_of_another_kind_is_refused_before_anything_runs():
    cell = new_code_cell('backends = ["eager"]\nframes = 24\nsize = 2 * 3', metadata={"tags": ["parameters"]})
    notebook = new_notebook(cells=[cell])
    for good in ({"frames": 2.5, "size": "x"}, {"backends": None}, {"backends": ["tvm"]}):
        require_kinds(notebook, good, "02")
    for bad, match in (
        ({"backends": "onnxruntime"}, "'backends' of 02 is a list, not 'onnxruntime'"),
        ({"frames": "many"}, "is a number, not 'many'"),
    ):
        refused(match, require_kinds, notebook, bad, "02")
