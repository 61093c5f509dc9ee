"""Judges, verdicts and their numbers."""

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score

from argosy.core.errors import InputError
from argosy.evidence.judging import judges
from argosy.evidence.judging.metrics import Verdict, kappa, length_controlled, metrics
from argosy.evidence.judging.records import Answer, Prompt
from argosy.model.infer.chat_api import ChatApi
from tests.evaluation_fixtures import make_language_model
from tests.plain_forward import bare, sequence
from tests.servers import judge_server

SAVED = dict[int, judges.Preference]


def _asked(judge: judges.ChatApiJudge, comparisons: list[judges.Comparison]) -> SAVED:
    found: SAVED = {}
    judge.prefer(comparisons, lambda index, preference: found.update({index: preference}))
    return found


@pytest.mark.parametrize(("reply", "preference"), [
    ("A", 1.0), (" **B**", 0.0), ("[[C]]", 0.5), ("A is fluent but wrong.\n\nVerdict: B.", 0.0), ("答案是A。", 1.0),
    ("结论：B", 0.0), ("The final verdict is: A", 1.0), ("Answer A is better than B.", None), ("回答A比B更好", None),
    ("I prefer A over B", None), ("A (C would be wrong)", None), ("Both are bad.", None), ("", None)])  # fmt: skip
def test_a_verdict_is_a_letter_alone_or_a_last_line_that_says_so(reply: str, preference: float | None) -> None:
    assert judges.read_verdict(reply) == preference


def test_a_busy_server_is_asked_again_after_the_time_it_names_and_one_that_never_answers_leaves_a_reason() -> None:
    waited: list[float] = []

    def answer(text: str, number: int) -> tuple[int, object]:
        broken = (500, {}) if "broken" in text else (200, {"choices": []}) if "odd" in text else (200, "B")
        return (429, {}) if number == 1 else broken

    with judge_server(answer) as asked:
        judge = judges.ChatApiJudge(ChatApi(asked.url, "m", attempts=2, parallel=1, sleep=waited.append))
        found = _asked(judge, [judges.Comparison("Q?", name, "x") for name in ("good", "broken", "odd")])
    assert [found[n].first for n in range(3)] == [0.0, None, None]
    assert waited[0] == 3.0
    assert "after 2 attempts (HTTP 500)" in found[1].reason
    assert found[1].retryable
    assert "choices[0].message.content" in found[2].reason


def test_a_server_that_refuses_is_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reply refuses; all others wait until the rest is given up."""
    given_up, shutdown = Event(), ThreadPoolExecutor.shutdown

    def shut(pool: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False) -> None:
        shutdown(pool, wait, cancel_futures=cancel_futures)
        given_up.set()

    def refuse(text: str, number: int) -> tuple[int, object]:
        assert number == 1 or given_up.wait(60)
        return 401, {"error": {"message": "no luck"}}

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shut)
    refused = pytest.raises(InputError, match=r"the key is refused.*no luck")
    with judge_server(refuse) as asked, refused:
        _asked(judges.ChatApiJudge(ChatApi(asked.url, "m")), [judges.Comparison("Q?", "a", "b")] * 20)
    assert len(asked.bodies) < 20


def test_a_checkpoint_judges_by_the_probability_of_the_letters() -> None:
    model = make_language_model(positions=512)
    found: SAVED = {}
    comparison = judges.Comparison("第1号是什么？", "北京", "长江")
    judge = judges.CheckpointJudge(model, chat=True, name="j")
    judge.prefer([comparison, judges.Comparison("x" * 2000, "a", "b")], lambda i, p: found.update({i: p}))
    text = model.chat(judges.question(comparison, writes=False))
    context = bare(model, text)
    logs = [sequence(model, context, bare(model, text + letter)[len(context) :]) for letter in "AB"]
    assert found[0].first == pytest.approx(1 / (1 + math.exp(logs[1] - logs[0])), abs=1e-5)
    assert found[1].first is None
    assert "longer than the judge's context of 512" in found[1].reason


def _both(texts: list[tuple[str, str]]) -> tuple[list[Prompt], dict[str, Answer], dict[str, Answer]]:
    names = [str(number) for number in range(len(texts))]
    return ([Prompt(name, f"Question {name}?") for name in names],
            {name: Answer(name, first) for name, (first, _) in zip(names, texts, strict=True)},
            {name: Answer(name, second) for name, (_, second) in zip(names, texts, strict=True)})  # fmt: skip


class Script:
    """A judge by a rule; stops after `stop` replies, as if it were killed."""

    def __init__(self, rule: object, stop: int | None = None) -> None:
        self.rule, self.stop, self.name, self.asked = rule, stop, "script", 0

    def prefer(self, comparisons: list[judges.Comparison], save: object) -> None:
        for index, comparison in enumerate(comparisons):
            if self.stop is not None and index >= self.stop:
                raise KeyboardInterrupt
            self.asked += 1
            save(index, judges.Preference(self.rule(comparison)))  # type: ignore[operator]


def test_equal_answers_are_a_tie_without_asking_and_missing_ones_are_counted(tmp_path: Path) -> None:
    prompts, first, second = _both([("same", "same "), ("a", "b"), ("c", "d")])
    del second["2"]
    judge = Script(lambda c: 1.0)
    verdicts, left_out, _, asked = judges.ask(judge, prompts, first, second, tmp_path / "kept", lambda *_: None)
    found = metrics(verdicts, {})
    assert (found["orders_agree"].value, found["orders_agree"].n) == (0, 1)  # the equal answers are no agreement
    assert found["position_bias"].value == 0.5
    judge = Script(lambda c: float(c.first == "a"))
    verdicts, *_ = judges.ask(judge, prompts, first, second, tmp_path / "other", lambda *_: None)
    assert (judge.asked, asked) == (2, 1)
    assert [v.winner for v in verdicts] == ["tie", "first"]
    assert left_out == Counter({"one of the two has no answer": 1})


def test_a_kill_loses_no_reply_and_asks_none_twice(tmp_path: Path) -> None:
    prompts, first, second = _both([(f"a{n}", f"b{n}") for n in range(12)])
    arguments = (prompts, first, second, tmp_path / "kept", lambda *_: None)
    whole, *_ = judges.ask(Script(lambda c: float(c.first < c.second)), prompts, first, second, tmp_path / "other",
                    lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        judges.ask(Script(lambda c: float(c.first < c.second), stop=7), *arguments)
    [kept] = (tmp_path / "kept").iterdir()
    kept.write_text(kept.read_text() + '{"id": "9", "or')  # the line that was being written
    again = Script(lambda c: float(c.first < c.second))
    verdicts, *_ = judges.ask(again, *arguments)
    assert again.asked == 24 - 7
    assert verdicts == whole


def test_the_length_controlled_rate_equals_sklearns_logistic_regression() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.integers(50, 300, 300), rng.integers(50, 300, 300)
    difference = first - second
    x = np.tanh(difference / difference.std())
    won = (rng.random(300) < 1 / (1 + np.exp(-(0.7 + 0.8 * x)))).astype(float)
    rate = length_controlled(won.tolist(), first.tolist(), second.tolist())
    fit = LogisticRegression(C=1.0).fit(x[:, None], won)
    assert rate.value == pytest.approx(1 / (1 + math.exp(-fit.intercept_[0])), abs=2e-3)


def test_kappa_equals_sklearns() -> None:
    rng = Random(3)
    pairs = [(rng.choice(["first", "tie", "second"]), rng.choice(["first", "first", "second"])) for _ in range(200)]
    assert kappa(pairs) == pytest.approx(cohen_kappa_score([a for a, _ in pairs], [b for _, b in pairs]))
    assert math.isnan(kappa([("tie", "tie")] * 3))


def test_metrics_of_verdicts_by_hand() -> None:
    verdicts = [Verdict("1", 0.9, 0.8, (10, 5)), Verdict("2", 0.6, 0.3, (3, 5)), Verdict("3", 0.1, 0.2, (2, 9))]
    found = metrics(verdicts, {"1": "first", "2": "second"})
    assert found["win_rate"].value == pytest.approx((1 + 0.5 + 0) / 3)
    assert found["preference"].value == pytest.approx((0.85 + 0.45 + 0.15) / 3)
    assert found["orders_agree"].value == pytest.approx(2 / 3)
    assert found["position_bias"].value == pytest.approx((0.05 + 0.15 - 0.05) / 3)
    assert (found["longer_wins"].value, found["agreement"].value) == (1.0, 0.5)
