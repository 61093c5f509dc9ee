"""Chains of thought, votes of samples and pass@k, and the collections whose answers are written."""

import json
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from argosy.evidence.results.items import read_items as read_rows
from evals.answers import NO_ANSWER, pass_at, voted
from evals.chain import parse_chain
from evals.extract import RULES
from evals.formats import read_items
from evals.items import Item, OpenItem
from evals.metrics import PASS_AT, chances, metrics
from tests.evaluation_fixtures import make_items, run_evaluate, save_checkpoint, write_items
from tests.step_fixtures import write_lines

WORKED = [Item(f"{n}", "en", f"Which is {n}?", ("p", "q", "r", "s"), n % 4, solution=f"It is\n\n{n}.")
          for n in range(6)]  # fmt: skip


def test_a_chain_of_thought_shows_solutions_and_the_end_that_its_rule_reads() -> None:
    chain = parse_chain("x", [{"few_shot": {"n": 1, "choose": "first"}}, "chain_of_thought"])
    [question] = chain.all_questions(WORKED[1:2], 0, WORKED)[0]
    assert question.prompt == (
        "Which is 0?\nA. p B. q C. r D. s\nAnswer: Let's think step by step. It is\n0. So the answer is (A).\n\n"
        "Which is 1?\nA. p B. q C. r D. s\nAnswer: Let's think step by step.")
    assert question.generation
    assert (question.generation.stops, question.generation.max_tokens, question.chance) == (("\n\n",), 512, 0.25)
    zero = parse_chain("chain_of_thought").questions(WORKED[1], 0)[0]
    assert zero.prompt.endswith('end with "So the answer is (X)."\nAnswer: Let\'s think step by step.')
    for chain_of in (["labels"], [{"permuted": {"k": 1}}]):  # a solution may name letters
        moved = parse_chain("x", [*chain_of, {"few_shot": {"n": 1}}, "chain_of_thought"])
        assert not moved.all_questions(WORKED, 0)[0]
    without = parse_chain("x", [{"few_shot": {"n": 1}}, "chain_of_thought"]).all_questions(make_items(6), 0)
    assert without[1] == {"there are fewer than 1 other items to make examples of": 6}


@pytest.mark.parametrize(("text", "found"), [
    ("A is far and B is near. So the answer is (B).", "B"), ("A is a capital", None), ("B", None),
    ("所以答案是C。", "C"), ("因此选B。", "B"), ("本题选B。", "B"), ("综上所述，正确的是B。", "B"), ("所以选 B", "B"),
    ("The correct choice is B.", "B"), ("不正确的是B", None), ("Therefore, (B) is correct.", "B"),
    ("因此，B项正确。", "B"),
    ("B is the correct answer.", "B"), ("B is not the correct answer.", None), ("A is correct, B is correct", None),
    ("I look at A, then at C", None), ("The answer is A. No: the answer is D.", "D"), ("\\boxed{C}", "C")])  # fmt: skip
def test_only_what_is_stated_is_the_answer_of_a_chain_of_thought(text: str, found: str | None) -> None:
    assert RULES.pick("stated_letter").extract(text, "ABCD") == found


def test_the_most_frequent_answer_of_samples_counts() -> None:
    spec = {"chain_of_thought": {"samples": 5, "temperature": 0.7, "pass_at": [1, 2]}}
    question = parse_chain("x", spec).questions(WORKED[1], 0)[0]
    texts = ["So the answer is (C).", "no", "The answer is B.", "the answer is (B)", "well"]
    found = voted(question, texts)
    assert (found.chosen, found.correct, found.text) == (1, True, "The answer is B.")
    values = {name: estimate.value for name, estimate in metrics([found]).items()}
    assert values == pytest.approx({"acc": 1, "unparsable": 0.4, "pass_at_1": 0.4, "pass_at_2": 0.7, "chance": 0.25})
    assert voted(question, ["no"] * 5).chosen == NO_ANSWER
    number = parse_chain("x", {"generative": {"samples": 3, "temperature": 1}}).questions(
        OpenItem("n", "en", "How many?", "0.5"), 0)[0]  # fmt: skip
    assert voted(number, ["3", "1/2", "0.50"]).correct  # equal by value


def test_pass_at_k_is_the_share_of_all_choices_of_k_samples() -> None:
    for n, right in ((1, 0), (1, 1), (5, 0), (5, 2), (8, 3), (8, 8)):
        for k in (each for each in PASS_AT if each <= n):
            drawn = [any(place < right for place in chosen) for chosen in combinations(range(n), k)]
            assert pass_at(n, right, k) == pytest.approx(sum(drawn) / len(drawn), abs=1e-9)


def test_a_guesser_is_at_the_stated_chance_of_votes_and_pass_at_k() -> None:
    spec = {"generative": {"samples": 4, "temperature": 1, "pass_at": [1, 4]}}
    rng, answers = Random(0), []
    for item in make_items(3000):
        [question] = parse_chain("x", spec).questions(item, 0)
        answers.append(voted(question, [rng.choice("ABCD") for _ in range(4)]))
    found, chance = metrics(answers), chances(answers)
    assert found["acc"].value == pytest.approx(found["chance"].value, abs=0.03)
    for name in ("pass_at_1", "pass_at_4"):
        assert found[name].value == pytest.approx(chance[name], abs=0.03)
    assert chance["pass_at_4"] == pytest.approx(1 - 0.75**4)


def test_samples_are_the_seeds_and_are_written_with_the_item(tmp_path: Path) -> None:
    write_items(tmp_path / "mine.jsonl", make_items(6))
    save_checkpoint(tmp_path / "model")
    (tmp_path / "suite.yaml").write_text(
        "benchmarks:\n  tasks: {mine: [mine.jsonl]}\n  variants:\n    voted: [{few_shot: {n: 2}}, {generative: "
        "{samples: 3, temperature: 1.0, pass_at: [1, 3], max_tokens: 4}}]\n")  # fmt: skip
    given = {"checkpoint": str(tmp_path / "model"), "suite_file": str(tmp_path / "suite.yaml")}
    found = [run_evaluate(tmp_path / f"{n}", **given, seed=seed, limit=limit)
             for n, (seed, limit) in enumerate(((0, None), (0, None), (1, None)))]
    assert {f"bench/mine/voted/{name}" for name in ("acc", "pass_at_1", "pass_at_3")} <= {*found[0]["metrics"]}
    rows = [read_rows(tmp_path / f"{n}") for n in range(3)]
    assert all(len(row["samples"]) == 3 for row in rows[0])
    assert [row["text"] for row in rows[0]] == [row["text"] for row in rows[1]] != [row["text"] for row in rows[2]]


def test_bbh_and_agieval_are_read_with_options_texts_and_solutions(tmp_path: Path) -> None:
    (tmp_path / "bbh").mkdir()
    examples = [{"input": "Which day?\nOptions:\n(A) Monday\n(B) Sunday", "target": "(B)"},
                {"input": "Is it so?\nOptions:\n- Yes\n- No", "target": "No"}, {"input": "1 + 1 = ", "target": "2"},
                {"input": "Is it so?\nOptions:\n- Yes\n- No", "target": "maybe"}]  # fmt: skip
    (tmp_path / "bbh/dates.json").write_text(json.dumps({"canary": "x", "examples": examples}))
    found = read_items(tmp_path / "bbh/dates.json", format="bbh")
    day, so, number = found.items
    assert isinstance(day, Item)
    assert isinstance(so, Item)
    assert (day.question, day.choices, day.answer, day.subject) == ("Which day?", ("Monday", "Sunday"), 1, "dates")
    assert (so.choices, so.answer, found.left_out) == (("Yes", "No"), 1, {"target is not among the options": 1})
    assert isinstance(number, OpenItem)
    assert number.answer == "2"
    (tmp_path / "dates.txt").write_text(
        "Canary.\n-----\nInfer.\n\nQ: Which day?\nOptions:\n(A) May 1\n(B) May 2\nA: Let's think step by step.\nIt "
        "is the 1st. So the answer is (A).\n\nQ: 1 + 2 = \nA: Let's think step by step.\nCount. So the answer is 3.")
    first, second = read_items(tmp_path / "dates.txt", format="bbh").items
    assert isinstance(first, Item)
    assert (first.answer, first.solution, second.solution) == (0, "It is the 1st.", "Count.")
    write_lines(tmp_path / "lsat-ar.jsonl", [
        {"passage": "Six people.", "question": "Who?", "options": ["(A)Ann", "(B)Bob"], "label": "B", "answer": None},
        {"passage": None, "question": "选出", "options": ["(A)猫", "(B)狗", "(C)鸟"], "label": ["A", "C"],
         "other": {"solution": "猫和鸟"}},
        {"passage": "", "question": "1+1", "options": None, "label": None, "answer": "2"}])
    who, several, open_ = read_items(tmp_path / "lsat-ar.jsonl", format="agieval").items
    assert isinstance(who, Item)
    assert isinstance(several, Item)
    assert (who.question, who.choices, who.answer, who.subject) == ("Six people.\nWho?", ("Ann", "Bob"), 1, "lsat-ar")
    assert who.cluster
    assert (several.lang, several.answers, several.solution) == ("zh", (0, 2), "猫和鸟")
    assert isinstance(open_, OpenItem)
    assert open_.answer == "2"
