"""Work of an evaluation: scores that are known already, the processes that help, and how far it is."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.model.infer.backends import open_model
from argosy.model.infer.model import LanguageModel, load_helper
from argosy.model.infer.rows import Query, Score
from argosy.model.infer.work import Helper, ScoreCache, Work
from argosy.model.weights.load import load_model
from tests.evaluation_fixtures import make_model, save_checkpoint
from tests.processes import alive, until

PAIRS = [("river", " stone"), ("river", " salt"), ("", "the Nile"), ("长江", "二十四")]
QUERIES = [Query((1, 2, n), 1, (4, 5)) for n in range(20)]
SCORES = [Score(-0.1 * n - 1 / 3, n % 2 == 0, 2) for n in range(20)]


def asked_of(scorer: Any) -> list[int]:
    """How many sequences each call computes from here on."""
    sizes: list[int] = []
    compute = scorer.compute

    def counting(task: Any) -> Any:
        sizes.append(sum(map(len, task[1])))
        return compute(task)

    scorer.compute = counting
    return sizes


def test_scores_are_known_to_the_next_process_of_the_same_model_and_transformers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, checkpoint = tmp_path / "cache", save_checkpoint(tmp_path / "model")
    expected = LanguageModel.load(checkpoint, cache=cache).loglikelihood(PAIRS)
    again = LanguageModel.load(checkpoint, cache=cache)
    sizes = asked_of(again.scorer)
    assert again.loglikelihood(PAIRS) == expected
    assert sizes == []
    other = save_checkpoint(tmp_path / "other")
    make_model(len(again.tokenizer), 256, initializer_range=0.5).save_pretrained(other.path)
    fresh = LanguageModel.load(other, cache=cache)
    sizes = asked_of(fresh.scorer)
    assert fresh.loglikelihood(PAIRS) != expected
    assert sum(sizes) == 4
    assert len(list(cache.iterdir())) == 2
    monkeypatch.setattr("transformers.__version__", "0.0.0")
    newer = LanguageModel.load(checkpoint, cache=cache)
    sizes = asked_of(newer.scorer)
    newer.loglikelihood(PAIRS)
    assert sum(sizes) == 4


def test_broken_entries_are_passed_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ScoreCache(tmp_path).add(zip(QUERIES, SCORES, strict=True))
    (path,) = tmp_path.iterdir()
    lines = path.read_text().splitlines(keepends=True)
    lines[3] = lines[3].replace("-", "-1", 1)  # another number, the old checksum
    lines[5] = "\x00\x01 nonsense\n"
    path.write_text("".join(lines)[:-20], encoding="ascii")  # and cut off at its end
    with caplog.at_level(logging.WARNING):
        known = ScoreCache(tmp_path)
    assert "3 broken entries are ignored" in caplog.text
    kept = [n for n in range(20) if n not in (3, 5, 19)]
    assert [known.get(QUERIES[n]) for n in kept] == [SCORES[n] for n in kept]
    assert [known.get(QUERIES[n]) for n in (3, 5, 19)] == [None] * 3


def test_processes_write_files_of_their_own_and_read_each_others(tmp_path: Path) -> None:
    first, second = ScoreCache(tmp_path), ScoreCache(tmp_path)
    first.add(zip(QUERIES[:10], SCORES[:10], strict=True))
    second.add(zip(QUERIES[10:], SCORES[10:], strict=True))
    second.add([(QUERIES[0], Score(float("nan"), False, 2))])  # is not written
    both = ScoreCache(tmp_path)
    assert [both.get(each) for each in QUERIES] == SCORES
    assert both.get(Query((1, 2, 0), 2, (4, 5))) is None


ROOT = Path(__file__).parents[4]
PROGRAM = "from tests.unit.model.infer import test_cache as t\n" \
          "for pid in t.computed_by(t.slow): print(pid, flush=True)"


def slow(*given: Any) -> Any:
    """Load a computer, as a helper does, or compute a task of two arguments: the id of the process."""
    time.sleep(0.1)
    return SimpleNamespace(compute=slow) if len(given) == 1 else os.getpid()


def broken(helper: Helper) -> Any:
    raise InputError("cannot load the checkpoint x: no kernel for this GPU")


def computed_by(load: Any) -> Any:
    """The process that computes each of many tasks, which one helper shares."""
    work = Work(helpers=[Helper(load, Path(), 1, 1, 0, 1)])
    try:
        yield from (pid for _, pid in work.run("", range(5000), lambda task: slow("", task), [1] * 5000))
    finally:
        work.close()


def test_a_helper_ends_with_an_evaluation_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        helper = next(pid for line in process.stdout if (pid := int(line)) != process.pid)
        process.kill()
    until(lambda: not alive(helper))


def test_a_helper_that_cannot_load_the_model_says_why() -> None:
    with pytest.raises(InputError, match="cannot load the checkpoint x: no kernel for this GPU"):
        list(computed_by(broken))


def test_every_process_computes_in_the_precision_that_is_given(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "model")
    load_model(checkpoint.path).bfloat16().save_pretrained(checkpoint.path)
    for given, dtype in (({}, "bfloat16"), ({"dtype": "float32"}, "float32"), ({"dtype": "weights"}, "bfloat16")):
        with open_model(checkpoint, tmp_path / "state", processes=2, **given) as model:
            [helper] = model.scorer.work.helpers
            models = (model, load_helper(helper))
            assert {str(each.dtype) for one in models for each in one.model.parameters()} == {f"torch.{dtype}"}
