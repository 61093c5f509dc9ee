from pathlib import Path
from typing import Any

import pytest

from tests.posttraining_fixtures import make_checkpoint, make_data, make_tokenizer


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, `base`, and the files of a data step, `data`."""
    root = tmp_path_factory.mktemp("posttraining")
    make_checkpoint(root / "base")
    make_data(root / "data", 64)
    return root


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return make_tokenizer()
