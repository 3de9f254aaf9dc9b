# `make demo` and `make test` do all set-up; they need python3 >= 3.11 with venv, and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Processes that share the tests.
WORKERS ?= 2
DEMO_TRACE := tests/fixtures/jax_unroll_lhs.sqlite

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all lint format golden docs bench fuzz clean

help:
	@echo "make demo    install into $(VENV) and print the report of a real H200 trace"
	@echo "make test    install with the test tools and run the tests, but for the slow ones"
	@echo "make test-all  the slow ones too"
	@echo "make lint    ruff and mypy --strict"
	@echo "make format  let ruff format the code"
	@echo "make golden  write all expected reports, pictures and notebooks anew; read the diff before you commit it"
	@echo "make docs    write the generated parts of the documentation anew"
	@echo "make bench   time reading and reporting against a plain C reader; needs gcc, libsqlite3-dev"
	@echo "make fuzz    try random examples of every property, all drawn edits and schemas, then damage traces"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.developing: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/nsysoverlap report $(DEMO_TRACE)

test: $(VENV)/.developing
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

test-slow: $(VENV)/.developing
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow $(PYTEST_ARGS)

test-all: test test-slow

lint: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict

format: $(VENV)/.developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

golden: $(VENV)/.developing
	$(BIN)/python -m pytest --update-golden

docs: $(VENV)/.developing
	$(BIN)/python docs/generate.py

bench: $(VENV)/.developing
	$(BIN)/python -m benchmarks.run

fuzz: $(VENV)/.developing
	$(BIN)/python -m pytest -q --hypothesis-profile=search $$(grep -l '@given' -r tests --include='*.py')
	DRAWN=full $(BIN)/python -m pytest -q -m slow -o faulthandler_timeout=3600 \
	    tests/test_drawn_schemas.py tests/test_drawn_edits.py tests/fuzz
	$(BIN)/python -m tests.fuzz

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
