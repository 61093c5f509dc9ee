"""The step that lets a judge compare two models, as its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from argosy.judging import judges
from argosy.step.retry import parts_to_retry
from argosy.step.runner import Item, run_item
from argosy.store.files import read_json
from steps.judge import STEP, JudgeConfig
from tests.evaluation_fixtures import save_checkpoint
from tests.judge_server import judge_server


def _run(out: Path, **config: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "steps.judge", "--config", json.dumps(config), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _write(path: Path, records: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return str(path)


def test_two_checkpoints_and_a_checkpoint_that_judges(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_checkpoint(tmp_path / name, chat=True, positions=1024)
    prompts = _write(tmp_path / "prompts.jsonl", [{"id": n, "prompt": f"What is number {n}?"} for n in range(3)])
    config = {"first": str(tmp_path / "a"), "second": str(tmp_path / "b"), "judge": str(tmp_path / "a"),
              "prompts": prompts, "max_new_tokens": 8}  # fmt: skip
    done = _run(tmp_path / "out", **config)
    assert done.returncode == 0, done.stderr
    outputs = read_json(tmp_path / "out/outputs.json")["outputs"]
    assert outputs["metrics"]["ties"] == 1.0  # the same weights twice
    lines = [json.loads(line) for line in (tmp_path / "out/verdicts.jsonl").read_text().splitlines()]
    assert [line["first"] for line in lines] == [line["second"] for line in lines]
    assert len(lines) == 3


def test_given_answers_a_server_and_labels(tmp_path: Path) -> None:
    prompts = _write(
        tmp_path / "p.jsonl", [{"id": str(n), "prompt": f"Who is number {n} of them all?"} for n in range(10)]
    )
    good = _write(tmp_path / "good.jsonl", [{"id": str(n), "answer": f"A noble reply{n}."} for n in range(10)])
    bad = _write(
        tmp_path / "bad.jsonl", [{"id": str(n), "answer": "so it is so it is so it is so it is so"} for n in range(9)]
    )
    labels = _write(tmp_path / "l.jsonl", [{"id": str(n), "winner": "first"} for n in range(4)])

    def right(text: str, _: int) -> tuple[int, str]:
        return 200, "A" if text.index("noble") < text.index("so it is") else "B"

    with judge_server(right) as asked:
        done = _run(tmp_path / "out", first_answers=good, second_answers=bad, prompts=prompts, labels=labels,
                    judge_url=asked.url, judge_model="m")  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = read_json(tmp_path / "out/outputs.json")["outputs"]
    assert outputs["metrics"]["win_rate"] == outputs["metrics"]["agreement"] == 1.0
    assert outputs["intervals"]["win_rate"][0] < 0.8
    assert outputs["faults"]["second"]["loop"] == 1.0
    assert outputs["faults"]["first"]["loop"] == 0
    assert outputs["left_out"] == {"one of the two has no answer": 1}
    assert len(asked.bodies) == 18
    assert "win rate 1.000" in done.stdout


def test_what_is_wrong_is_named_and_ends_with_2(tmp_path: Path) -> None:
    done = _run(
        tmp_path / "out",
        first=str(tmp_path),
        first_answers=__file__,
        second=str(tmp_path),
        judge_url="http://127.0.0.1:9/v1",
    )
    assert done.returncode == 2
    assert "give either first (a checkpoint) or first_answers (a file)" in done.stderr
    prompts = _write(tmp_path / "p.jsonl", [{"prompt": "a?"}])
    done = _run(
        tmp_path / "out", first=str(tmp_path / "none"), second=str(tmp_path), prompts=prompts, judge=str(tmp_path)
    )
    assert done.returncode == 2
    assert "none" in done.stderr
    assert "Traceback" not in done.stderr


def _given(folder: Path, url: str, second: list[str]) -> dict[str, str]:
    """Four prompts; of the first model's answers, the last is `same`."""
    texts = {"prompt": [f"Name city {n}." for n in range(4)], "first": ["Paris 0", "Paris 1", "Paris 2", "same"],
             "second": second}  # fmt: skip
    files = {name: _write(folder / f"{name}.jsonl", [{"id": str(n), "prompt" if name == "prompt" else "answer": text}
                                                     for n, text in enumerate(found)])
             for name, found in texts.items()}  # fmt: skip
    return {"first_answers": files["first"], "second_answers": files["second"], "prompts": files["prompt"],
            "judge_url": url, "judge_model": "m"}  # fmt: skip


def test_ties_of_equal_answers_do_not_stand_for_a_judge_that_said_nothing(tmp_path: Path) -> None:
    with judge_server(lambda *_: (200, "I cannot say.")) as asked:
        given = _given(tmp_path, asked.url, ["Rome", "Rome", "Rome", "same"])
        done = _run(tmp_path / "out", **given)
    assert done.returncode == 1
    assert f"the judge m at {asked.url} judged none of the 3 prompts that it was given" in done.stderr
    assert "3 x the judge's reply names no answer" in done.stderr
    assert not (tmp_path / "out/outputs.json").exists()
    equal = _given(tmp_path, "http://127.0.0.1:9/v1", ["Paris 0", "Paris 1", "Paris 2", "same"])
    done = _run(tmp_path / "equal", **equal)  # nobody is asked
    assert done.returncode == 0, done.stderr
    assert "all answers are equal" in done.stdout
    assert "orders_agree" not in read_json(tmp_path / "equal/outputs.json")["outputs"]["metrics"]


def test_what_a_server_did_not_answer_is_asked_again_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judges, "ChatApiJudge", partial(judges.ChatApiJudge, attempts=1, sleep=lambda _: None))
    down = True

    def right(text: str, _: int) -> tuple[int, object]:
        if "city 2" in text and down:
            return 503, {}
        return 200, "A" if text.index("Paris") < text.index("Rome") else "B"

    with judge_server(right) as asked:
        item = Item(JudgeConfig(**_given(tmp_path, asked.url, ["Rome"] * 3 + ["same"])), tmp_path / "out")
        assert run_item(STEP, item).code == 0
        first = read_json(item.out / "outputs.json")
        assert len(asked.bodies) == 6
        assert parts_to_retry(first) == ["verdicts"]
        assert first["outputs"]["failed"]["verdicts"].startswith("of 3 prompts, 1 x the judge did not answer after 1 ")
        assert first["outputs"]["metrics"]["win_rate"] == pytest.approx(2.5 / 3)
        assert run_item(STEP, item).code == 0  # it is down still: what is there stays
        assert len(asked.bodies) == 8
        assert read_json(item.out / "outputs.json")["outputs"] == first["outputs"]
        down = False
        assert run_item(STEP, item).code == 0
        assert len(asked.bodies) == 10
        assert run_item(STEP, item).message == "already done"
    found = read_json(item.out / "outputs.json")
    assert (parts_to_retry(found), found["outputs"]["failed"], found["outputs"]["left_out"]) == ([], {}, {})
    assert found["outputs"]["metrics"]["win_rate"] == pytest.approx(3.5 / 4)
    assert not (item.out / "state").exists()
