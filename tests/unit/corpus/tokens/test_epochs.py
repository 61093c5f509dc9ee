"""Caps on epochs: what a table says is what is sampled."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.core.step.contract import Progress, StepContext
from argosy.core.store.files import read_json
from argosy.corpus.data.sources import weights_of
from argosy.corpus.tokens.epochs import REPORT, Caps, planned_tables
from argosy.corpus.tokens.mixture import PERIOD, quotas
from argosy.model.train.config import ContinueConfig, TrainConfig
from argosy.model.train.phase import _data
from tests.training_fixtures import Recorder, write_tokenized

PHASE = {"sequence_length": 32, "global_batch_size": 10, "tokens": 2 * PERIOD * 32, "heldout_tokens": 100}


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Channels of 500, 1,000 and 2,000 windows, nearly."""
    directory = tmp_path_factory.mktemp("tokenized")
    channels = {name: [([0, *range(2, 17), 1], 15)] * count * 2 for name, count in (
        ("code", 500), ("en", 1000), ("zh", 2000))}
    write_tokenized(directory, {"train": channels, "heldout": {}}, 20)
    return directory


def phase(tokenized: Path, out: Path, cls: type[TrainConfig] = TrainConfig, **fields: Any) -> tuple[Any, Recorder]:
    """Open the data of a phase, which tells its epochs; returns the mixture and what is logged."""
    out.mkdir(parents=True, exist_ok=True)
    tracker = Recorder()
    config = cls.model_validate({**PHASE, "tokenized": str(tokenized), **fields})
    return _data(config, StepContext(out, tracker, Progress(None)), "pretrain")[0], tracker


def table(out: Path) -> dict[str, Any]:
    return {row["channel"]: row for row in read_json(out / REPORT)["mixture"]["channels"]}


def test_the_table_tells_what_is_sampled_and_is_known_before(tokenized: Path, tmp_path: Path,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {"mixture": {"code": 1.0, "en": 1.0, "zh": 0}, "max_epochs": {"en": 1.5}}
    mixture, tracker = phase(tokenized, tmp_path, **given)
    found = table(tmp_path)
    sampled = Counter(mixture.names[mixture.locate(k)[0]] for k in range(2 * PERIOD))
    assert {name: row["samples"] for name, row in found.items()} == sampled == {"code": 1000, "en": 1000}
    assert {name: row["epochs"] for name, row in found.items()} == mixture.epochs(2 * PERIOD)
    assert tracker.logged["mixture/epochs/code", 0] == found["code"]["epochs"] == pytest.approx(2, rel=0.01)
    assert [found[name]["max_epochs"] for name in ("code", "en")] == [None, 1.5]
    assert [found[name]["max_epochs_in_all"] for name in ("code", "en")] == [4, None]
    [planned] = planned_tables(read_json(tokenized / "index.json"),
                               {"pretrain": TrainConfig.model_validate({**PHASE, **given}).model_dump()}).values()
    assert {row.channel: row.epochs for row in planned} == pytest.approx(mixture.epochs(2 * PERIOD), rel=0.05)
    assert [row.alarm for row in planned] == [found[name]["alarm"] for name in ("code", "en")] == ["", ""]
    assert "code" in capsys.readouterr().out


def test_epochs_add_up_over_phases_on_the_same_tokens(tokenized: Path, tmp_path: Path,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    phase(tokenized, tmp_path / "a", mixture={"code": 1.0, "en": 3.0, "other": 0})
    phase(tokenized, tmp_path / "b", ContinueConfig, checkpoint=str(tmp_path / "a"), mixture={"zh": 1.0, "other": 0})
    phase(tokenized, tmp_path / "c", ContinueConfig, checkpoint=str(tmp_path / "b"), mixture={"code": 1.0, "other": 0})
    last = table(tmp_path / "c")["code"]
    assert last["epochs_in_all"] == table(tmp_path / "a")["code"]["epochs"] + last["epochs"]
    assert last["epochs_in_all"] == pytest.approx(5, rel=0.01)
    assert last["alarm"] == f"{last['epochs_in_all']:.3g} epochs in all are above 4"
    assert "ALARM" in capsys.readouterr().out
    others = tmp_path / "others"
    write_tokenized(others, {"train": {"code": [([0, 2, 1], 1)] * 9000}, "heldout": {}}, 20)
    phase(others, tmp_path / "d", ContinueConfig, checkpoint=str(tmp_path / "c"))
    assert table(tmp_path / "d")["code"]["epochs_in_all"] == table(tmp_path / "d")["code"]["epochs"]
    assert "trained on other tokens" in capsys.readouterr().out


def test_a_mixture_beyond_its_caps_is_refused_where_that_is_asked_for(tokenized: Path, tmp_path: Path) -> None:
    phase(tokenized, tmp_path, max_epochs=4, over_max_epochs="refuse")
    with pytest.raises(InputError, match=r"refuse: .* code \(.* epochs in this phase are above 0\.5\); lower"):
        phase(tokenized, tmp_path, max_epochs={"code": 0.5}, over_max_epochs="refuse")
    with pytest.raises(InputError, match=r"max_epochs_in_all\.cod: no such channel.*code, en, zh"):
        phase(tokenized, tmp_path, max_epochs_in_all={"cod": 0.5})


def test_caps_that_are_not_given_are_no_part_of_the_identity() -> None:
    assert not {"max_epochs", "max_epochs_in_all", "over_max_epochs"} & TrainConfig().identity().keys()
    same = [TrainConfig.model_validate({"max_epochs": given}).identity() for given in (4, {"*": 4})]
    assert same[0] == same[1] != TrainConfig().identity()


def test_one_word_names_the_others_in_a_mixture_and_in_caps() -> None:
    def caps(given: dict[str, float], channels: str) -> list[float | None]:
        found = Caps.of({"max_epochs": given, "max_epochs_in_all": {}, "over_max_epochs": "warn"}, channels.split())
        return [found[name][0] for name in channels.split()]

    assert caps({"a": 2, "other": 3}, "a b c") == caps({"a": 2, "*": 3}, "a b c") == [2, 3, 3]
    assert caps({"other": 3}, "a other") == [None, 3]  # a channel of that name is itself
    assert caps({"other": 3, "*": 1}, "a other") == [1, 3]
    assert weights_of({"other": 3, "*": 1}, {"a": 7, "other": 1}) == {"a": 1, "other": 3}
    with pytest.raises(InputError, match=r"max_epochs has other and \*, which are the same channels: leave one out"):
        caps({"other": 3, "*": 1}, "a b")


def test_quotas_are_in_proportion_to_a_sample() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        shares = rng.dirichlet(np.ones(int(rng.integers(1, 9))))
        found = quotas(shares)
        assert found.sum() == PERIOD
        assert found.min() >= 1
        if (shares * PERIOD >= 1).all():
            assert np.abs(found - shares * PERIOD).max() < 1
