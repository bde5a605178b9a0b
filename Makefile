# Every target does its own set-up: a virtual environment in .venv with the versions in constraints.txt.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev

.PHONY: help demo test lint format docs benchmark install clean
help:
	@echo "make demo     every method on a synthetic model: a table and a picture (installs the core only)"
	@echo "make test     all tests (installs the development tools and PyTorch)"
	@echo "make lint     style and types"
	@echo "make format   rewrite the sources in the project's style"
	@echo "make docs     the documentation, into site/"
	@echo "make benchmark    times of kernels and methods beside each other"
	@echo "make install  everything a developer needs, and stop"
	@echo "make clean    remove the environment and what the targets wrote"

demo: $(CORE)
	$(BIN)/softhash demo

test: $(DEV)
	$(BIN)/python -m pytest

lint: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

format: $(DEV)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

benchmark: $(DEV)
	$(BIN)/python -m pytest benchmarks --benchmark-only

install: $(DEV)

clean:
	rm -rf $(VENV) demo.png demo.csv .pytest_cache .ruff_cache .hypothesis .benchmarks site

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "softhash needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[torch,dev]'
	@touch $(CORE) $@
