"""A real model, the one that ARGOSY_REAL_MODEL names, as the stages and as transformers itself load it."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.real_model.reference import Reference
from tests.training_fixtures import run_here

NAMED = "ARGOSY_REAL_MODEL"


@pytest.fixture(scope="session")
def real() -> Path:
    """The model as its maker saves it; the test is skipped where it is absent."""
    named = os.environ.get(NAMED, "")
    if not named or not Path(named).exists():
        pytest.skip(f"{NAMED} is {named!r}, where there is no model: `make test-real` fetches one")
    return Path(named).absolute()


@pytest.fixture(scope="session")
def theirs(real: Path) -> Reference:
    """The same model in float32, loaded by transformers alone."""
    return Reference.of(real)


@pytest.fixture(scope="session")
def started(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the step `start`, from which the stages go on."""
    from steps import start

    root = tmp_path_factory.mktemp("start")
    run_here(start, root, model=real, export_dtype="float32")
    return root


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the step `data`: instructions and pairs that people wrote, in English."""
    from steps import data
    from tests.shared_data import shared

    folder, root = shared("llms_from_scratch"), tmp_path_factory.mktemp("data")
    named: dict[str, Any] = {
        "instructions": {"tasks": str(folder / "ch07__01_main-chapter-code__instruction-data.json")},
        "preferences": {"tasks": str(folder / PAIRS)}}
    run_here(data, root, **named, demo=SMALL)
    return root


SMALL = {"english_bytes": 1000, "code_bytes": 1000, "knowledge_repeats": 1, "quiz_repeats": 1, "answer_repeats": 1,
         "instructions": 8, "preferences": 8, "prompts": 8}  # none of it is read
PAIRS = "ch07__04_preference-tuning-with-dpo__instruction-data-with-preference.json"
