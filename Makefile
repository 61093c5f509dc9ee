# make demo | test | check | crash N=20 | setup | lock    (each makes .venv first; PYTHON=... chooses the interpreter)

BIN := .venv/bin
N ?= 20
# Named by what is installed, so that a changed lock installs again and nothing else does.
STAMP := .venv/.installed-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)

.PHONY: help setup demo test check crash lock

help:
	@echo "make demo        train, evaluate and compare a small language model, from nothing (minutes)"
	@echo "make test        checks and tests"
	@echo "make check       ruff, mypy, import rules"
	@echo "make crash N=20  kill random steps of a small run N times, and compare the bytes"
	@echo "make lock        resolve requirements.lock again (needs uv)"

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

test: check
	$(BIN)/python -m pytest

crash: setup
	$(BIN)/python -m tests.end_to_end.crash $(N)

lock:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-annotate --no-header --no-emit-index-url --quiet --output-file requirements.lock
