# The commands of README, docs and CI. Each makes its own environment in .venv where that is missing or out of date.
.PHONY: help demo page picture screenshots reproduce test test-slow check format docs messages wheels bench bench-serve compare first-use alpha theory clean
.DEFAULT_GOAL := help

PYTHON ?= python3
# Of the page.
PORT ?= 8000
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip --require-virtualenv install --quiet --no-compile --disable-pip-version-check \
	--constraint constraints.txt
# One thread for BLAS and the like: our batches are small, and measurements compare like with like.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
# The version of thali-client that thali asks for, so that both can be installed from this tree.
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' client/src/thali_client/__init__.py)
export THALI_CLIENT := ==$(VERSION)

help:
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.venv/lab: pyproject.toml client/pyproject.toml constraints.txt
	@test -f .venv/pyvenv.cfg && $(BIN)/python -m pip --version > /dev/null 2>&1 \
		|| { echo "making .venv"; rm -rf .venv; $(PYTHON) -m venv .venv; }
	@echo "installing thali[lab,serve] into .venv"
	@$(INSTALL) -e ./client -e '.[lab,serve]'
	@touch $@

.venv/dev: .venv/lab
	@echo "installing the tools for tests and checks into .venv"
	@$(INSTALL) -e ./client -e '.[lab,serve,dev]'
	@touch $@

demo: .venv/lab ## the paper's synthetic experiment, end to end
	@$(BIN)/thali demo

page: .venv/lab ## a page in the browser: click and see it learn, watch policies, run the service
	@$(BIN)/thali demo --web --port $(PORT)

picture: .venv/lab ## redraw the README's picture
	@$(BIN)/thali demo --out docs/demo.png

screenshots: .venv/dev ## take the pictures of the page again
	@$(BIN)/python tests/helpers/screenshots.py

reproduce: .venv/lab ## the paper's experiments at a small scale, and a report
	@$(BIN)/thali reproduce

test: .venv/dev ## the tests every newcomer runs
	$(BIN)/python -m pytest -m "not slow"

test-slow: .venv/dev ## long runs and speed floors
	$(BIN)/python -m pytest -m slow

check: .venv/dev ## lint, types, directions of import
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev ## put the code into its layout
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/dev ## Build the documentation as a web site in site/, and check its links
	@$(BIN)/python scripts/site.py

messages: .venv/dev ## list every error message, with its file and line
	@$(BIN)/python scripts/messages.py

wheels: .venv/lab ## build both distributions, thali and thali-client, into dist/
	@$(BIN)/python -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir dist ./client .

bench: .venv/dev ## speed against textbook NumPy, into docs/performance.md
	$(BIN)/python benchmarks/bench.py

bench-serve: .venv/dev ## rate, latency and memory of the service, into docs/performance.md
	$(BIN)/python benchmarks/serve.py

compare: .venv/dev ## speed of another clone and of this one, in turns: make compare OLD=path
	$(BIN)/python benchmarks/compare.py $(OLD)

first-use: .venv/dev ## seconds to import, to help, to the first list, to compile everything
	$(BIN)/python benchmarks/first_use.py

alpha: .venv/dev ## the measurement behind the default optimism
	$(BIN)/python benchmarks/default_alpha.py

theory: .venv/dev ## the paper's theorems and lemmas, measured
	$(BIN)/python benchmarks/theory.py

clean: ## remove the environment and what was built
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
