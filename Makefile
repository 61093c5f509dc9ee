# make demo | test | check | crash N=20 | setup | lock    (each makes .venv first; PYTHON=... chooses the interpreter)
# make real-model | demo-real | test-real     (docs/start.md)
# make test-gpu | test-image    (CONTRIBUTING.md, docs/install.md)
# make images | manifests | cluster-up | test-cluster     (docs/install.md)

BIN := .venv/bin
N ?= 20
# Named by what is installed, so that a changed lock installs again and nothing else does.
STAMP := .venv/.installed-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)

# Images: those that a profile names, with its tag. BASE by digest: BASE=docker.io/library/python@sha256:...
IMAGES ?= data train mlflow
REGISTRY ?=
TAG ?= latest
BASE ?= docker.io/library/python:3.11-slim-bookworm
BUILDER ?= $(shell for each in docker podman buildah; do if $$each info >/dev/null 2>&1; then echo $$each; break; fi; done)
BUILD_FLAGS ?=
# Where PYTHON names another version than .venv has, .venv is made anew.
ifneq ($(PYTHON),)
ifneq ($(shell $(PYTHON) --version 2>&1),$(shell $(BIN)/python --version 2>&1))
.PHONY: $(STAMP)
endif
endif
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' argosy/__init__.py)
REVISION := $(shell git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || echo unknown)

.PHONY: help setup demo test check crash lock real-model demo-real test-real test-gpu test-image images $(IMAGES:%=image-%) manifests cluster-up cluster-down test-cluster

help:
	@echo "make demo        train, evaluate and compare a small language model, from nothing (minutes)"
	@echo "make test        checks and tests"
	@echo "make check       ruff, mypy, import rules"
	@echo "make crash N=20  kill random steps of small runs N times, and compare the bytes"
	@echo "make demo-real   post-train, evaluate and compare a small real model, SmolLM2 (tens of minutes)"
	@echo "make real-model  fetch a small real model, SmolLM2 (93 MB); make test-real runs the tests that need one"
	@echo "make test-gpu    every path of a GPU beside its numbers on the CPU, ten minutes at a time (ARGS='--only fp8')"
	@echo "make test-image  each field in the image train, which it builds (BUILDER, BUILD_FLAGS as of make images)"
	@echo "make lock        resolve requirements.lock and images/*.lock again (needs uv)"
	@echo "make images      build the images with docker, podman or buildah (IMAGES='data train mlflow' REGISTRY= TAG=latest)"
	@echo "make manifests   write argo-install/generated again, after a change of the graph or of a profile"
	@echo "make cluster-up  a cluster on this machine (kind or k3d) with everything; make cluster-down ends it"
	@echo "make test-cluster  the tests that need a cluster (KUBECONFIG)"

setup: $(STAMP)

$(STAMP):
	@PYTHON="$(PYTHON)" .ci/setup
	@rm -f .venv/.installed-*
	@touch $@

demo: setup
	@$(BIN)/argosy run --preset demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One test file at a time more than there are cores, as some wait; four at most, since each holds a model.
test: check
	$(BIN)/python -m pytest -n $$($(BIN)/python -c "import os; print(min(4, os.cpu_count() + 1))") --dist loadfile --no-loadscope-reorder

crash: setup
	$(BIN)/python -m tests.end_to_end.crash $(N)

real-model: setup
	@.ci/real-model

REAL = PYTHONPATH=$(CURDIR)/.real-model $(BIN)/argosy

demo-real: setup
	@model=$$(.ci/real-model) && $(REAL) run --preset real start.model=$$model
	@$(REAL) compare start sft dpo rlhf twin --html runs/real-compare.html
	@$(REAL) cases sft twin --html runs/real-cases.html

# The model is another one where ARGOSY_REAL_MODEL names it: a GGUF file, or a directory that transformers loads.
test-real: setup
	model=$$(.ci/real-model) && PYTHONPATH=$(CURDIR)/.real-model ARGOSY_REAL_MODEL=$${ARGOSY_REAL_MODEL:-$$model} \
		OMP_NUM_THREADS=$$(getconf _NPROCESSORS_ONLN) $(BIN)/python -m pytest tests/real_model --durations=20

# In whichever environment has torch; it names what that lacks.
test-gpu:
	@$$(test -x $(BIN)/python && echo $(BIN)/python || echo python3) -m tests.gpu $(ARGS)

# Starts each field in the image; TAG, REGISTRY and BUILDER as of `make images`.
test-image: setup image-train
	model=$$(.ci/real-model) && ARGOSY_REAL_MODEL=$${ARGOSY_REAL_MODEL:-$$model} ARGOSY_IMAGE=$(REGISTRY)argosy-train:$(TAG) \
		BUILDER=$(BUILDER) $(BIN)/python -m pytest tests/gpu/test_image.py

EXPORTS := --extra onnx --extra quantize
LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url --quiet

lock:
	$(LOCK) pyproject.toml --extra dev $(EXPORTS) --output-file requirements.lock
	$(LOCK) pyproject.toml $(EXPORTS) --constraint requirements.lock --output-file images/train-slim.lock
	$(LOCK) pyproject.toml $(EXPORTS) --extra gguf --extra gpu --constraint requirements.lock --output-file images/train.lock
	$(LOCK) --no-deps --group pyproject.toml:image-llama-cpp --output-file images/llama-cpp.lock
	for each in data mlflow tools; do \
		$(LOCK) --group pyproject.toml:image-$$each --constraint requirements.lock --output-file images/$$each.lock; done
	$(subst --universal,--python-platform x86_64-manylinux_2_28,$(LOCK)) --group pyproject.toml:image-vllm --output-file images/vllm.lock

images: $(IMAGES:%=image-%)

$(IMAGES:%=image-%): image-%:
	@test -n "$(BUILDER)" || { echo "make images needs docker (running), podman or buildah: install one" >&2; exit 2; }
	$(BUILDER) build --file images/Dockerfile.$* --tag $(REGISTRY)argosy-$*:$(TAG) --build-arg BASE=$(BASE) \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) $(BUILD_FLAGS) .

manifests: setup
	$(BIN)/argosy manifests --profile all --out argo-install/generated

cluster-up:
	argo-install/laptop.sh up

cluster-down:
	argo-install/laptop.sh down

test-cluster: setup
	$(BIN)/python -m pytest tests/cluster
