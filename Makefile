# Two commands do everything on a fresh machine: `make report` and `make test`.

# Looked for once, when the first rule needs it.
PYTHON ?= $(eval PYTHON := $(shell command -v python3.11 || command -v python3.12 || command -v python3))$(PYTHON)
VENV ?= .venv
BIN := $(VENV)/bin
# For example: make report TORCH_INDEX=<PyTorch's CPU wheel index>; see the README.
TORCH_INDEX ?=
# What is installed, by hash; empty, the newest that pyproject.toml allows: make report LOCK=
LOCK ?= data/lock/requirements.txt
# Not compiled: most of what is installed is never imported, and what is gets compiled when it is.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
PIP := $(BIN)/python $(INSTALL)
HASHED := --no-deps --require-hashes
CLIENTS ?= .venv-clients
REPLAY ?= .venv-replay

WEIGHTS ?=
WHISPER ?=
JOBS ?= 2
# Files are handed out whole, and in the order in which they were collected: the longest first.
SPREAD := -n $(JOBS) --dist loadfile --no-loadscope-reorder
PARAMETERS := $(if $(WEIGHTS),-p weights $(WEIGHTS)) $(if $(WHISPER),-p whisper_model $(WHISPER))

test test-all report: export KOKORO_NB_CLIENTS ?= $(abspath $(CLIENTS))/bin/python
test test-all report: export KOKORO_NB_NODE ?= $(abspath $(CLIENTS))/node_modules

unexport PYTHONDONTWRITEBYTECODE  # else each of hundred processes compiles the package anew

.PHONY: report test test-all replay versions lab lint lock doctor clean

report: $(VENV)/.installed ## run every notebook and render outputs/report/index.html
	$(BIN)/kokoro-nb report --jobs $(JOBS) $(PARAMETERS)

# What the clients need is installed beside the environment, and while types are checked.
test: ## run the linter, the type checker and the tests
	$(MAKE) --no-print-directory --jobs=2 lint $(CLIENTS)/.tried
	$(BIN)/python -m pytest -m "not slow" $(SPREAD) --seconds=outputs/test_seconds.json

test-all: $(VENV)/.installed $(CLIENTS)/.tried ## the tests with the slow sweeps
	$(BIN)/python -m pytest $(SPREAD)

lint: $(VENV)/.installed ## run the linter and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Notebook 12's records, with ExecuTorch 0.7.0 and with what is here. PyTorch 2.8.0 brings several GB of CUDA libraries.
REPLAYED := norm:portable block:xnnpack block_written_out:xnnpack inverse:portable inverse_contiguous:portable
replay: $(VENV)/.installed ## make the records of notebook 12 anew, by hand: several GB
	$(PYTHON) -m venv $(REPLAY) && $(REPLAY)/bin/python $(INSTALL) -r data/replay/requirements.txt
	for place in executorch_0_7:$(abspath $(REPLAY)) today:$(abspath $(VENV)); do for one in $(REPLAYED); do \
	  PYTHONPATH=. PATH=$${place#*:}/bin:$$PATH python -W ignore -m kokoro_nb diagnose --no-remedies \
	    data/replay/targets.py:$${one%:*} --backend executorch-$${one#*:} \
	    --json data/replay/$${place%:*}/$${one%:*}.json; case $$? in 0|1|3) ;; *) exit 1;; esac; done; done

# One environment at a time, and removed when it was tried; SETS="old new" for some of them.
versions: $(VENV)/.installed ## try the core with old, locked and newest versions, by hand: several GB
	$(PYTHON) data/versions/run_versions.py $(BIN)/python outputs/versions $(SETS)

lab: $(VENV)/.installed ## open JupyterLab on the notebooks
	$(BIN)/jupyter lab --notebook-dir=notebooks

doctor: $(VENV)/.installed ## say what is installed and what can run here
	$(BIN)/kokoro-nb doctor

clean: ## remove what runs have written; the environment and the cache stay
	rm -rf outputs/run outputs/report outputs/notebooks

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v in ((3, 11), (3, 12)) else \
	  f"The workbook needs Python 3.11 or 3.12, and this is {v[0]}.{v[1]}; name one with: make report PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# The lock is complete, so that nothing else is resolved. An index without torch's build for processors has CUDA's.
$(VENV)/.installed: pyproject.toml $(LOCK) | $(BIN)/python
ifeq ($(LOCK),)
	$(PIP) --editable ".[workbook,dev]"
else
	$(PIP) $(HASHED) -r $(dir $(LOCK))cpu.txt || $(PIP) $(HASHED) -r $(dir $(LOCK))cuda.txt
	$(PIP) $(HASHED) -r $(LOCK)
	$(PIP) --no-deps --editable .
endif
	@touch $@

# Versions stay, but of what UPGRADE names (`UPGRADE=all` for each); then python3.12 data/lock/write_lock.py --hashes
lock: | $(BIN)/python ## write data/lock/ and environment.yml from pyproject.toml
	$(BIN)/python data/lock/write_lock.py $(UPGRADE)

# What people speak with, apart from the rest; without it the tests that need it are skipped, and say so.
$(CLIENTS)/.tried: pyproject.toml
	-$(PYTHON) -m venv $(CLIENTS) && $(CLIENTS)/bin/python $(INSTALL) \
	  $(shell sed -n 's/^clients = \[\(.*\)\]/\1/p' pyproject.toml | tr -d ',')
	-command -v npm > /dev/null && npm install --prefix $(CLIENTS) --ignore-scripts --no-audit --no-fund \
	  --loglevel=error kokoro-js@1.2.1 @huggingface/transformers@4.3.1
	@mkdir -p $(CLIENTS) && touch $@
