# holdfast: every task is one word. Needs python3 (3.11 or newer, with venv) and make; nothing else.
#
#   make demo          a first run, in seconds, with a report to look at
#   make test          the whole test suite
#   make help          the other words
#
# PYTHON=python3.12 make test    chooses the interpreter that the environments are made from.

PYTHON ?= python3
VENV ?= .venv
VENV_LOWEST ?= .venv-lowest
PYTEST_ARGS ?=
DEMO_DIR ?= demo

BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# The first pip that knows dependency groups; python3 may bring an older one.
PIP := pip>=25.1

# Tests run on all cores at once, so each process keeps to one BLAS thread.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-quick browser test-browser torture test-lowest lint format types docs bench bench-smoke reproduce package dev clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environments: one stamp per set, renewed when pyproject.toml changes -------------------------

# A set: extras of the package and a dependency group, as pyproject.toml has them.
SET_demo := --editable ".[app]"
SET_test := --editable ".[all]" --group test
SET_browser := --editable ".[all]" --group test --group browser
SET_docs := --editable ".[app]" --group docs
SET_bench := --editable ".[plot]" --group bench
SET_reproduce := --editable ".[plot]" --group reproduce
SET_lint := --group lint
SET_release := --group release
SET_dev := --editable ".[all]" --group dev

define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "holdfast needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' has no venv module: install it (Debian, Ubuntu: apt install python3-venv)."; exit 1; }
	$(PYTHON) -m venv --clear $(1)
endef

$(VENV)/.made:
	$(call make_venv,$(VENV))
	@touch $@

$(VENV)/.set-%: $(VENV)/.made pyproject.toml
	$(BIN)/python $(PIP_INSTALL) "$(PIP)"
	$(BIN)/python $(PIP_INSTALL) $(SET_$*)
	@touch $@

# --- running ------------------------------------------------------------------------------------

demo: $(VENV)/.set-demo ## a first run, with a report to look at
	$(BIN)/holdfast demo --output $(DEMO_DIR)

test: $(VENV)/.set-test ## the whole test suite
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

test-quick: $(VENV)/.set-test ## the test suite without the slow tests
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto -m "not slow" $(PYTEST_ARGS)

browser: $(VENV)/.set-browser ## what the browser tests need: playwright and a Chromium
	$(BIN)/python tools/chromium.py

test-browser: browser ## the tests of the report in a real browser; SHOTS=folder writes pictures
	HOLDFAST_BROWSER=required HOLDFAST_SCREENSHOTS=$(SHOTS) $(ONE_THREAD) $(BIN)/python -m pytest tests/app/test_browser.py $(PYTEST_ARGS)

torture: $(VENV)/.set-test ## hard random problems against many digits: PROBLEMS=200 SEED=0 WAYS=1 JOBS=2 RECORD=file
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python -W ignore -m torture --problems $(or $(PROBLEMS),200) --seed $(or $(SEED),0) --jobs $(or $(JOBS),1) $(if $(WAYS),--ways) $(if $(RECORD),--record $(RECORD))

lint: $(VENV)/.set-lint ## ruff (lint and format) and codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

format: $(VENV)/.set-lint ## format the code and sort its imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.set-test $(VENV)/.set-lint ## mypy --strict on src
	$(BIN)/mypy

docs: $(VENV)/.set-docs ## the documentation, warnings as errors: docs/_build/html/index.html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "The documentation is in docs/_build/html/index.html"

bench: $(VENV)/.set-bench ## the benchmarks, ten minutes; DOCS=1 writes the tables of the docs
	$(BIN)/python -m benchmarks $(if $(DOCS),--docs)

bench-smoke: $(VENV)/.set-bench ## the benchmarks on tiny problems, to see that they work
	$(BIN)/python -m benchmarks --smoke

reproduce: $(VENV)/.set-reproduce ## the papers' experiments, few repetitions; ONLY=p000-fig1: one, in full
	$(BIN)/python -m reproduce $(or $(ONLY),all --quick)

package: $(VENV)/.set-release ## build the wheel and the source archive into dist, and check them
	rm -rf dist
	$(BIN)/python -m build --quiet .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tools/check_package.py dist

dev: $(VENV)/.set-dev ## an environment with everything a contributor needs
	$(BIN)/pre-commit install

# --- the oldest versions that pyproject.toml promises to work with --------------------------------

$(VENV_LOWEST)/.made: pyproject.toml tools/lowest.py
	$(call make_venv,$(VENV_LOWEST))
	$(VENV_LOWEST)/bin/python $(PIP_INSTALL) "$(PIP)"
	$(VENV_LOWEST)/bin/python tools/lowest.py > $(VENV_LOWEST)/constraints.txt
	$(VENV_LOWEST)/bin/python $(PIP_INSTALL) --constraint $(VENV_LOWEST)/constraints.txt $(SET_test)
	@touch $@

test-lowest: $(VENV_LOWEST)/.made ## the tests, without the slow ones, with the oldest supported versions
	$(ONE_THREAD) $(VENV_LOWEST)/bin/python -m pytest -n auto -q -m "not slow" $(PYTEST_ARGS)

clean: ## remove what make built, but not the results of benchmarks
	rm -rf $(VENV) $(VENV_LOWEST) $(DEMO_DIR) build dist docs/_build docs/gallery docs/api/generated docs/api/names.rst
	rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache .coverage
	find src tests benchmarks reproduce -name __pycache__ -type d -prune -exec rm -rf {} +
