"""The process of a step: arguments, help, exit codes, signals, batches."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import steps
from argosy.core.config.schema import Config
from argosy.core.plugins import names
from argosy.core.step.command import _configs, field_descriptions
from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import ERROR, LOG, OUTPUTS, RUN
from tests.processes import ROOT, run_python
from workflows.graph import definition
from workflows.lifecycle import LifecycleConfig


def noop(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "steps.noop", *arguments, **environment)


def test_help_shows_every_field_with_type_default_and_meaning() -> None:
    text = noop("--help").stdout
    assert "for tests and for measuring" in text
    assert "size: int = 0\n      bytes to write" in text
    assert 'fail: "" | "error" | "input" | "crash" | "exit" | "kill" | "hang" = ""' in text


def undescribed(cls: type[Config], where: str) -> Iterator[str]:
    """Fields of a config, and of those in it, without a description; a config in it is described by its own fields."""
    literals = field_descriptions(cls)
    for name, field in cls.model_fields.items():
        nested = list(_configs(field.annotation))
        if not nested and not field.description and not literals.get(name):
            yield f"{where}.{name}"
        for other in nested:
            yield from undescribed(other, f"{where}.{name}")


def test_every_field_of_every_config_has_a_description() -> None:
    configs = {name: definition(name).config for name in names(steps)} | {"lifecycle": LifecycleConfig}
    assert [each for name, cls in configs.items() for each in undescribed(cls, name)] == []


def test_wrong_config_names_field_value_and_nearest(tmp_path: Path) -> None:
    wrong = noop("--config", '{"sise": 3, "index": "x"}', "--out", tmp_path / "o")
    assert wrong.returncode == 2
    assert "index is 'x'" in wrong.stderr
    assert "nearest: size" in wrong.stderr
    assert noop("--config", "{", "--out", tmp_path / "o").returncode == 2
    assert noop("--config", f"@{tmp_path}/none.json", "--out", tmp_path / "o").returncode == 2
    assert noop("--config", "{}").returncode == 2
    assert not (tmp_path / "o").exists()


def batch(tmp_path: Path, *configs: dict[str, object]) -> subprocess.CompletedProcess[str]:
    items = [{"config": config, "out": str(tmp_path / str(i))} for i, config in enumerate(configs)]
    (tmp_path / "batch.json").write_text(json.dumps(items))
    return noop("--batch", tmp_path / "batch.json")


def test_a_batch_goes_on_after_a_failure_and_returns_the_worst(tmp_path: Path) -> None:
    configs = [{"fail": "error"}, {"nonsense": 1}, {"size": 2}]
    assert batch(tmp_path, *configs).returncode == 2
    assert (tmp_path / "2" / OUTPUTS).exists()
    assert "failed on request" in (tmp_path / "0" / LOG).read_text()
    again = batch(tmp_path, {}, {}, {"size": 2})
    assert again.returncode == 0
    assert f"{tmp_path}/2: already done" in again.stdout
    assert json.loads((tmp_path / "2" / RUN).read_text())["attempts"] == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stops_it_and_the_next_start_continues(tmp_path: Path, number: signal.Signals, code: int) -> None:
    config = ["--config", '{"size": 1000, "seconds": 30}', "--out", str(tmp_path)]
    with subprocess.Popen([sys.executable, "-m", "steps.noop", *config], cwd=ROOT, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "progress.json").exists():
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(30) == code
    begun = (tmp_path / "data.bin").stat().st_size
    assert 0 < begun < 1000
    assert not any((tmp_path / name).exists() for name in (OUTPUTS, ERROR, LEASE))  # a stop is no failure
    assert json.loads((tmp_path / RUN).read_text())["exit"] == code
    assert noop("--config", '{"size": 1000}', "--out", tmp_path).returncode == 0
    assert (tmp_path / "data.bin").read_bytes() == bytes(i % 251 for i in range(1000))
