# Everything that can be done with a checkout. `make` lists it.
# Variables: PYTHON (3.11 or newer, for .venv), TESTS (what pytest runs), ARGS (more for pytest), JOBS (test processes), ONLY (figures), SEED, MINUTES and POOLED (chaos).

PYTHON ?= python3
TESTS ?= tests
ARGS ?=
JOBS ?= 2

BIN := .venv/bin
INSTALLED := .venv/.installed
DEBIAN := var/debian/.asked
COMPILE = $(BIN)/pip-compile --quiet --strip-extras --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.DEFAULT_GOAL := help
.PHONY: help setup run demo test guards chaos bench check lint types contracts fmt lock clean

help: ## list what can be done
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) $(DEBIAN) ## make .venv and install what is pinned; again only when the pins changed

run: $(INSTALLED) ## run all of it, print a link to sign in: make run PORT=8080, make run ARGS=--help
	@$(BIN)/python -m deploy.run $(ARGS)

demo: $(INSTALLED) ## run everything on sample lists to the end, print a summary
	@$(BIN)/python -m deploy.demo

test: setup ## run the tests: make test TESTS=tests/store ARGS="-k claim"
	$(BIN)/python -m pytest -n $(JOBS) $(TESTS) $(ARGS)

bench: $(INSTALLED) ## measure the promised figures, some minutes each: make bench ONLY=id,id
	@$(BIN)/python -m bench --only "$(ONLY)"

guards: $(INSTALLED) ## take every guard of docs/invariants.md out, see its test fail (some minutes)
	GUARDS=1 $(BIN)/python -m pytest -n $(JOBS) tests/guards $(ARGS)

chaos: $(INSTALLED) ## fail everything at random for some minutes, then judge: make chaos SEED=7 MINUTES=3 POOLED=1
	@$(BIN)/python -m bench.chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(POOLED),--pooled)

check: ## lint, types, contracts, tests: what CI runs
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory contracts
	@$(MAKE) --no-print-directory test

lint: $(INSTALLED) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED) ## mypy, strict, tests included
	$(BIN)/mypy --explicit-package-bases .

contracts: $(INSTALLED) ## import-linter: which room may import which
	$(BIN)/lint-imports

fmt: $(INSTALLED) ## let ruff repair and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(INSTALLED) ## compile the requirements: make lock UPGRADE=--upgrade
	$(COMPILE) $(UPGRADE) --output-file requirements.txt requirements.in
	$(COMPILE) $(UPGRADE) --allow-unsafe --output-file requirements-dev.txt requirements-dev.in

clean: ## remove what can be made again (.venv, caches, test servers); your data in var/ stays
	rm -rf .venv var/debian var/test var/test15 .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Sluice needs Python 3.11 or newer, and $(PYTHON) is {sys.version.split()[0]}: make setup PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements-dev.txt
	@touch $@

# PostgreSQL 15, PgBouncer, nginx and systemd-analyze for tests; they skip without them. A failed try is not repeated: `make clean` forgets it.
$(DEBIAN): deploy/debian.sh
	@deploy/debian.sh var/debian || true
	@mkdir -p var/debian && touch $@
