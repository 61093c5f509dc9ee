"""Tokens of two channels, which several files of tests train on."""

from pathlib import Path

import pytest

from tests.training_fixtures import make_data


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    make_data(directory, {"en": 80, "zh": 40}, words=150)
    return directory
