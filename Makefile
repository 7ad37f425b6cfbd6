# `make` lists the commands. Everything sets itself up in .venv; large extras in out/ (noxfile.py).

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
T ?= tests
# Tests wait for processes, files and limits: three keep two processors busy.
JOBS ?= 3
READER ?=
SHARD ?= 1/1
FUZZ_SECONDS ?= 60
# Of an environment with extras, readers of their model files are fuzzed, too.
FUZZ_BIN ?= $(BIN)
RUNS ?= -1

help: ## Show the targets
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml runtime/pyproject.toml runtime/serve/pyproject.toml constraints.txt scripts/find-python
	@python=$$(scripts/find-python) || exit 1; \
	 echo "creating $(VENV) with $$($$python --version) and installing into it: minutes, once"; \
	 $$python -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev]'
	@touch $(STAMP)

setup: $(STAMP) ## Create the environment

demo: $(STAMP) ## Build, verify and run a signed bundle of a digits classifier (in out/demo)
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/demo out/demo

lint: style types ## Check format, style, types and imports between packages

style: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

# Builds' children import these, hundreds of times, and leave no bytecode. Of its own modules pytest
# writes what it makes of their assertions, which each of its workers would make again.
bytecode: $(STAMP)
	$(BIN)/python -m compileall -q aotc runtime/aotc_runtime runtime/serve/aotc_serve
	@# All are collected where the stamp is missing, or T names a test in a file: `find` reports an error.
	test -z "$$(find $(T) -name '*.py' -newer $(VENV)/.collected 2>&1)" || \
	    { env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --collect-only -qq $(T) > /dev/null; \
	      touch $(VENV)/.collected; }

# What is named runs whole; what is long (tests/conftest.py), `make test-long` runs otherwise. Types
# take a minute of one processor, and the first tests wait for others.
test: style ## Lint, and all tests that are not long (T=path for all of a part)
	$(MAKE) --jobs 2 types tested

tested: bytecode
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(if $(filter tests,$(T)),-m 'not long') $(T)

test-%: $(STAMP) ## Run a suite that needs more: `make suites` lists them
	@$(BIN)/nox --session $*

suites: $(STAMP) ## List the suites of test-NAME
	@$(BIN)/nox --list

fuzz: $(STAMP) ## Fuzz every reader in out/fuzz (READER=tar for one, FUZZ_SECONDS=60 and RUNS=-1 each)
	@PATH="$(CURDIR)/$(FUZZ_BIN):$$PATH" scripts/fuzz out/fuzz "$(READER)" "$(FUZZ_SECONDS)" "$(RUNS)"

mutate: bytecode ## Remove every check in turn; list those that no test misses (SHARD=1/4 for a part)
	$(BIN)/python -m scripts.mutation --shard $(SHARD) --jobs $(JOBS)

vectors: $(STAMP) ## Write bundles and policies with one flaw each, for other readers (in out/vectors)
	rm -rf out/vectors
	$(BIN)/python -m scripts.vectors out/vectors

bench: $(STAMP) ## Measure; COMPARE=... against jax.jit, ONNX Runtime, OpenVINO, IREE and AOTInductor
	set -e; for each in cold_start import_budget reproducibility verification cycles traffic \
	    'engine rebuild' 'engine jobs'; do $(BIN)/python -m benchmarks.$$each; done
	$(if $(COMPARE),$(BIN)/python -m benchmarks.compare $(COMPARE))

docs: $(STAMP) out/docs/.installed ## Write the generated pages anew, and build the site strictly into out/site
	$(BIN)/python -m scripts.error_codes
	$(BIN)/python -m scripts.command_reference
	out/docs/bin/mkdocs build --strict
	$(MAKE) vectors
	tar --create --gzip --file out/site/reference/vectors.tar.gz --directory out vectors

docs-serve: out/docs/.installed ## Show the site on http://127.0.0.1:8000 while you write
	out/docs/bin/mkdocs serve

out/docs/.installed: pyproject.toml
	rm -rf out/docs
	$$(scripts/find-python) -m venv out/docs
	out/docs/bin/python -m pip install --quiet --disable-pip-version-check \
	    $$($(BIN)/python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); print(*(each.replace(' ', '') for each in p['project']['optional-dependencies']['docs']))")
	touch $@

constraints: ## Write constraints.txt anew from the newest releases that fit
	rm -rf out/constraints
	$$(scripts/find-python) -m venv out/constraints
	out/constraints/bin/python -m pip install --quiet --disable-pip-version-check \
	    -e runtime -e runtime/serve -e '.[examples,dev]'
	{ echo '# What CI and the demo install. Regenerate: `make constraints`.'; \
	  out/constraints/bin/python -m pip freeze --exclude-editable; } > constraints.txt

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .nox

.PHONY: help setup demo lint style types bytecode test tested suites fuzz mutate bench docs docs-serve constraints clean
