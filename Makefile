# The commands that README, docs and CI use. Each creates the environment .venv if it is missing or out of date.
.PHONY: help demo page picture screenshots reproduce test test-slow check format docs messages wheels bench mechanisms bench-serve compare first-use alpha prior-alpha first-lists quality likes-tuning live theory clean
.DEFAULT_GOAL := help

PYTHON ?= python3
# The port of the page.
PORT ?= 8000
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip --require-virtualenv install --quiet --no-compile --disable-pip-version-check \
	--constraint constraints.txt
# One thread for BLAS and similar libraries: our batches are small, and measurements compare single threads.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
# The version of thali-client that thali requires, so that both can be installed from this tree.
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' client/src/thali_client/__init__.py)
export THALI_CLIENT := ==$(VERSION)

help:
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.venv/lab: pyproject.toml client/pyproject.toml constraints.txt
	@test -f .venv/pyvenv.cfg && $(BIN)/python -m pip --version > /dev/null 2>&1 \
		|| { echo "creating .venv"; rm -rf .venv; $(PYTHON) -m venv .venv; }
	@echo "installing thali[lab,serve] into .venv"
	@$(INSTALL) -e ./client -e '.[lab,serve]'
	@touch $@

.venv/dev: .venv/lab
	@echo "installing the tools for tests and checks into .venv"
	@$(INSTALL) -e ./client -e '.[lab,serve,dev]'
	@touch $@

demo: .venv/lab ## Run the paper's synthetic experiment, and draw a figure
	@$(BIN)/thali demo

page: .venv/lab ## Serve a web page on which you can try thali
	@$(BIN)/thali demo --web --port $(PORT)

picture: .venv/lab ## Redraw the figure in the README (docs/demo.png)
	@$(BIN)/thali demo --out docs/demo.png

screenshots: .venv/dev ## Retake the screenshots of the web page
	@$(BIN)/python tests/helpers/screenshots.py

reproduce: .venv/lab ## Run the paper's experiments at a small scale, and write a report
	@$(BIN)/thali reproduce

test: .venv/dev ## Run the fast tests
	$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile

test-slow: .venv/dev ## Run the slow tests: PostgreSQL, the browser, crashes, real data, minimum speeds
	$(BIN)/python -m pytest -m slow

check: .venv/dev ## Check style, types and imports between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/dev ## Build the documentation as a web site in site/, and check its links
	@$(BIN)/python scripts/site.py

messages: .venv/dev ## List all error messages with file and line
	@$(BIN)/python scripts/messages.py

wheels: .venv/lab ## Build the packages thali and thali-client in dist/
	@$(BIN)/python -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir dist ./client .

bench: .venv/dev ## Compare the speed of building lists with that of textbook NumPy code
	$(BIN)/python benchmarks/bench.py

mechanisms: .venv/dev ## Measure what each mechanism of the search engine brings, and update docs/performance.md
	$(BIN)/python benchmarks/mechanisms.py

bench-serve: .venv/dev ## Measure the speed and memory of the service, and update docs/performance-service.md
	$(BIN)/python benchmarks/serve.py

compare: .venv/dev ## Compare the speed with that of another clone: make compare OLD=path
	$(BIN)/python benchmarks/compare.py $(OLD)

first-use: .venv/dev ## Measure how long import and compilation take, and update docs/first-use.md
	$(BIN)/python benchmarks/first_use.py

alpha: .venv/dev ## Compare possible default values of the exploration parameter α
	$(BIN)/python benchmarks/default_alpha.py

prior-alpha: .venv/dev ## Compare rules for the default α with a prior, and update docs/prior-alpha.md; DATA=folder of the data
	$(BIN)/python benchmarks/prior_alpha.py $(if $(DATA),--data $(DATA))

first-lists: .venv/lab ## Measure the first lists at full scale, and update docs/first-lists.md; DATA=folder of the data
	@$(BIN)/thali reproduce likes lists first-lists arriving --full $(if $(DATA),--data $(DATA)) --out results/first-lists
	@$(BIN)/python benchmarks/first_lists.py results/first-lists

quality: .venv/dev ## Measure what the quality of items brings and what exploring costs, and update docs/quality.md; DATA=folder of the data
	$(BIN)/python benchmarks/quality.py $(if $(DATA),--data $(DATA))

likes-tuning: .venv/dev ## Choose settings for the experiments with real likes, on training people; DATA=folder of the data
	@$(BIN)/python benchmarks/likes_tuning.py $(if $(DATA),--data $(DATA))

live: .venv/dev ## Measure first lists, histories, learned priors and the quality in the service, and update docs/live.md; DATA=folder of the data
	$(BIN)/python benchmarks/live.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/prior_check.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/live_quality.py $(if $(DATA),--data $(DATA))

theory: .venv/dev ## Check the paper's theorems and lemmas numerically
	$(BIN)/python benchmarks/theory.py

clean: ## Remove .venv and everything that was built
	rm -rf .venv dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
