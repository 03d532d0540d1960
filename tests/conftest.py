"""The models and the utterance that tests share, each made once, published files of their form; seconds by file."""

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

# Set before torch is loaded: on small tensors a second thread costs more than it brings, most of all on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Read when huggingface_hub is loaded: a hub cache of their own, and a hub where nobody listens.
HUB = tempfile.TemporaryDirectory(prefix="hub-")
os.environ |= {"HF_HUB_CACHE": HUB.name, "HF_ENDPOINT": "http://127.0.0.1:9"}
TEXT = "Hello world."
# by ``--seconds``: those of half a minute and more
LONGEST = (
    *("test_notebooks.py", "backends/test_stock.py", "test_frozen_verdicts.py"),
    *("tvm/test_cross.py", "backends/test_contract.py", "test_diagnose_command.py", "locate/test_taken.py"),
    *("locate/test_culprit_bundle.py", "benchmarks/test_decoders.py", "test_process_faults.py"),
)
SECONDS = Counter()  # by test file


def pytest_addoption(parser):
    """Add ``--seconds FILE``: write there how long each test file took."""
    parser.addoption("--seconds", metavar="FILE", help="write the seconds of each test file")


def pytest_runtest_logreport(report):
    """Add up the reports of a file, also of other processes."""
    SECONDS[report.location[0]] += report.duration


def pytest_sessionfinish(session):
    """Write what was added up, in the process that hears of all tests."""
    path = session.config.getoption("--seconds")
    if path is None or hasattr(session.config, "workerinput"):
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    rounded = {file: round(spent, 2) for file, spent in sorted(SECONDS.items())}
    Path(path).write_text(json.dumps(rounded, indent=2), encoding="utf-8")


@pytest.fixture(scope="session")
def narrow():
    """Return the narrow model."""
    from kokoro_nb.models.kokoro import load_model

    return load_model("narrow")


@pytest.fixture(scope="session")
def narrow_case(narrow):
    """Return one utterance of the narrow model: 15 tokens, some 70 frames."""
    from kokoro_nb.models.case import capture

    return capture(narrow, TEXT, g2p="espeak")


@pytest.fixture(scope="session")
def shallow_weights(tmp_path_factory):
    """Return a folder of weights: narrow, and every part with fewer layers; exports of it take half as long."""
    import torch

    from kokoro_nb.models.architecture import build, initialise, narrow_config

    config = narrow_config() | {"n_layer": 1}
    config["istftnet"] |= {"resblock_kernel_sizes": [7], "resblock_dilation_sizes": [[1, 3, 5]]}
    model = build(config)
    initialise(model, 0)
    folder = tmp_path_factory.mktemp("weights") / "shallow"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.save(_published_form(model), folder / "shallow.pth")
    return folder


@pytest.fixture(scope="session")
def shallow(shallow_weights):
    """Return the model with those weights, for tests to which the number of layers is nothing."""
    from kokoro_nb.models.kokoro import load_model

    return load_model(shallow_weights)


@pytest.fixture(scope="session")
def shallow_case(shallow):
    """Return one utterance of the shallow model."""
    from kokoro_nb.models.case import capture

    return capture(shallow, TEXT, g2p="espeak")


@pytest.fixture(scope="session")
def seeded():
    """Return the full architecture; the one build of 81.8 M parameters in a session."""
    from kokoro_nb.models.kokoro import load_model

    return load_model("seeded")


@pytest.fixture(scope="session")
def pocket():
    """Return the small PocketTTS."""
    from kokoro_nb.models.pocket.pocket_architecture import load_pocket

    return load_pocket()


@pytest.fixture
def hub_cache():
    """Return the hub cache of the tests, empty."""
    shutil.rmtree(HUB.name, ignore_errors=True)
    return Path(HUB.name)


@pytest.fixture(scope="session")
def checkpoint(narrow):
    """Return the narrow weights in the published form."""
    return _published_form(narrow.model)


def _published_form(model):
    """Return five parts, ``module.`` before their keys, without the affine parameters of InstanceNorm."""
    import torch

    norms = {name for name, module in model.named_modules() if isinstance(module, torch.nn.InstanceNorm1d)}
    parts = {part: {} for part in ("bert", "bert_encoder", "predictor", "decoder", "text_encoder")}
    for key, tensor in model.state_dict().items():
        part, _, rest = key.partition(".")
        if key.rpartition(".")[0] not in norms:
            parts[part][f"module.{rest}"] = tensor
    parts["bert"]["module.embeddings.position_ids"] = torch.arange(512)[None]
    return parts


@pytest.fixture(scope="session")
def published(checkpoint, tmp_path_factory):
    """Return a folder of the published form with the narrow weights and two voices."""
    import torch

    from kokoro_nb.models.architecture import narrow_config

    folder = tmp_path_factory.mktemp("published")
    (folder / "config.json").write_text(json.dumps(narrow_config()), encoding="utf-8")
    torch.save(checkpoint, folder / "kokoro-v1_0.pth")
    (folder / "voices").mkdir()
    for seed, voice in enumerate(("am_adam", "af_heart")):
        source = torch.Generator().manual_seed(seed)
        torch.save(0.3 * torch.randn(510, 1, 256, generator=source), folder / "voices" / f"{voice}.pt")
    return folder


@pytest.fixture
def cache_repo(hub_cache):
    """Return a function that puts the files of a folder into the hub cache, laid out as `huggingface_hub` does."""

    def put(folder, repo, names=None):
        root, revision = hub_cache / f"models--{repo.replace('/', '--')}", "0" * 40
        (root / "refs").mkdir(parents=True)
        (root / "blobs").mkdir()
        (root / "refs" / "main").write_text(revision)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder)
            if names is not None and str(name) not in names:
                continue
            content = path.read_bytes()
            blob = root / "blobs" / hashlib.sha256(content).hexdigest()
            blob.write_bytes(content)
            link = root / "snapshots" / revision / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(blob)

    return put


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest: a worker that is given one at the end leaves the other without work."""
    items.sort(key=lambda item: next((n for n, end in enumerate(LONGEST) if item.path.match(end)), len(LONGEST)))
