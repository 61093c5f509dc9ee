"""Learn, then ask, on a small checkpoint: what is learnt, what the gain is, and that nothing else changes."""

import json
import shutil
import statistics
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from argosy.core.errors import InputError, StepError
from argosy.core.step.contract import Progress, StepContext
from argosy.core.store.step_files import read_outputs
from argosy.core.tracking.tracker import Tracker
from argosy.evidence.compare.checkpoints import read_checkpoints
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.items import read_items
from argosy.evidence.results.rows import Rows
from argosy.evidence.results.values import total
from argosy.model.post.briefly import learn_texts
from argosy.model.post.config import SFTConfig
from argosy.model.weights.load import load_model
from argosy.model.weights.pretrained import load_tokenizer
from evals.answers import Answer, answer, generated
from evals.items import Item
from evals.learning import add_gains, learning_of, make_lesson, texts_of
from evals.question import Question
from evals.section import Benchmarks
from evals.variants.learn_then_ask import LearnThenAsk
from steps.learn import STEP, LearnConfig
from steps.start import StartConfig
from tests.evaluation_fixtures import make_items, run_evaluate, save_checkpoint, write_items
from tests.plain_forward import nats
from tests.step_fixtures import run_step, write_lines
from tests.trees import write_file
from workflows.evaluation import Evaluation, evaluations, learning
from workflows.graph import Node
from workflows.local.runner import run_plan
from workflows.plan import plan
from workflows.stages import Stages

LEARN = {"learn_then_ask": {"epochs": 4, "learning_rate": 0.003}}
VARIANTS: dict[str, Any] = {"plain": None, "cloze": None}
LEARNT: dict[str, Any] = {"learnt": [LEARN, "cloze"], "letters": LEARN}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training step, a data step, and suites with and without the form."""
    root = tmp_path_factory.mktemp("store")
    save_checkpoint(root / "sft/checkpoints/end")
    export = {"name": "end", "path": "checkpoints/end", "step": 10, "tokens": 1000}
    outputs = {"outputs": {"exports": [export], "final": "checkpoints/end"}, "made_from": {}}
    (root / "sft/outputs.json").write_text(json.dumps(outputs))
    write_items(root / "facts.jsonl", make_items(16))
    for name, variants in {"with": VARIANTS | LEARNT, "without": VARIANTS}.items():
        suite_of(root / f"{name}.yaml", {"facts": ["facts.jsonl"]}, variants)
    return root


def suite_of(file: Path, tasks: dict[str, list[str]], variants: dict[str, Any]) -> str:
    """A file that asks the variants of the tasks."""
    return str(write_file(file, json.dumps({"benchmarks": {"tasks": tasks, "variants": variants}})))


def learn(store: Path, out: Path, **fields: Any) -> dict[str, Any]:
    given = {"checkpoint": str(store / "sft"), "suite_file": str(store / "with.yaml"), **fields}
    return run_step(STEP, LearnConfig(**given), out)


def test_texts_hold_the_options_and_nothing_of_which_is_right() -> None:
    for item in make_items(12):
        texts = list(texts_of(item, 8, seed=1))
        for other in range(len(item.choices)):  # the same whatever is right
            assert texts == list(texts_of(replace(item, answer=other), 8, seed=1))
        orders = [text.removeprefix(f"{item.question}\n").split("\n") for text in texts]
        assert all(sorted(order) == sorted(item.choices) for order in orders)
        firsts = [order[0] for order in orders]
        assert all(firsts.count(choice) == 2 for choice in item.choices)  # each is first as often


def test_the_gain_is_that_of_the_copy_which_learnt_the_item(store: Path) -> None:
    section = Benchmarks.model_validate({"tasks": {"facts": [str(store / "facts.jsonl")]}, "variants": LEARNT})
    way = learning_of(section, "s")
    assert way == LearnThenAsk(**LEARN["learn_then_ask"])
    findings = Findings()
    lesson = make_lesson(section, way, store, 0, None, findings)
    questions = [question for batch in lesson.batches for question in batch.questions]
    rng = Random(0)
    rights = [[rng.random() < 0.6 for _ in questions] for _ in range(2)]  # of the copies
    given = [[answered(*each) for each in zip(questions, own, strict=True)] for own in rights]
    given[0][3] = "not a number"
    add_gains(lesson, given, findings)
    gains = []
    for n, question in enumerate(lesson.batches[0].questions):
        if n != 3:
            half = sha256(question.item.encode()).digest()[0] % 2
            gains.append(100 * (int(rights[half][n]) - int(rights[1 - half][n])))
    assert findings.metrics["bench/facts/learnt/gain"] == pytest.approx(sum(gains) / len(gains))
    spread = statistics.stdev(gains) / len(gains) ** 0.5
    assert findings.stderr["bench/facts/learnt/gain"] == pytest.approx(spread)
    assert findings.left_out["bench/facts/learnt"] == {"not a number": 1}
    kind = findings.kinds["bench/facts/learnt/gain"]
    assert (kind.better, kind.unit, kind.chance) == ("higher", "points", 0)
    values = Rows(findings.rows).values("bench/facts_zh/learnt/gain")  # that comparisons pair
    assert total(values) == pytest.approx(findings.metrics["bench/facts_zh/learnt/gain"])


OPEN = {"open": [{"learn_then_ask": {**LEARN["learn_then_ask"], "among": 12}}, "cloze"], "closed": LEARNT["learnt"],
        "written": [LEARN, "cloze", "generative"]}  # fmt: skip


def test_one_who_guesses_among_the_options_gains_nothing_and_one_who_knows_does(tmp_path: Path) -> None:
    items = {item.id: item for item in make_items(400)}
    write_items(tmp_path / "facts.jsonl", [*items.values()])
    section = Benchmarks.model_validate({"tasks": {"facts": [str(tmp_path / "facts.jsonl")]}, "variants": OPEN})
    way = learning_of(section, "s")
    assert way == LearnThenAsk(**LEARN["learn_then_ask"])
    lesson, rng = make_lesson(section, way, tmp_path, 0, None, Findings()), Random(0)
    questions = [question for batch in lesson.batches for question in batch.questions]
    for question in lesson.batches[0].questions:
        own, others = question.continuations[:4], question.continuations[4:]
        assert own == items[question.item].choices
        assert len({*own, *others}) == 16
        known = {text for item in items.values() if item.lang == question.lang for text in item.choices}
        assert {*others} <= known
        assert question.chance == 1 / 16
    measured = {}
    for knows in (0.0, 0.5):
        findings = Findings()
        learned = [picked(each, items, each.gold if rng.random() < knows else rng.randrange(4)) for each in questions]
        control = [picked(each, items, 4) for each in questions]
        halves = [sha256(question.item.encode()).digest()[0] % 2 for question in questions]
        given = [[one if half == copy else other for one, other, half in zip(learned, control, halves, strict=True)]
                 for copy in range(2)]
        add_gains(lesson, given, findings)
        measured[knows] = findings
    for form, guessed, named in (("open", 0, 1), ("written", 0, 1), ("closed", 1 / 4, None)):
        for knows, findings in measured.items():  # half of the items known, each worth what no guess has
            gain, error = (each[f"bench/facts/{form}/gain"] for each in (findings.metrics, findings.stderr))
            assert gain == pytest.approx(100 * knows * (1 - 1 / 4), abs=3 * error)
            assert findings.metrics[f"bench/facts/{form}/control"] == pytest.approx(guessed, abs=0.07)
            assert findings.metrics.get(f"bench/facts/{form}/named") == named


def picked(question: Question, items: dict[str, Item], place: int) -> Answer:
    """Return an answer that names an option, or, beyond the item's own, what is none of them."""
    if question.generation is not None:
        return generated(question, [*items[question.item].choices, "neither"][place])
    if place == len(question.continuations):  # the closed form: a guess
        place = Random(question.id).randrange(4)
    by_character = [-float(len(text)) * (other != place) for other, text in enumerate(question.continuations)]
    found = answer(question, by_character)
    assert found
    return found


def test_a_pipeline_learns_once_and_changes_no_other_result(store: Path, tmp_path: Path, warm: None) -> None:
    def nodes(suite: str) -> list[Node]:
        checkpoint = Node("start", "start", StartConfig(model=str(store / "sft/checkpoints/end")))
        config = Evaluation(suites={str(store / f"{suite}.yaml"): "final"})
        return [checkpoint, *evaluations(Stages(0, {}, known=None), config, [checkpoint])]

    first = plan(nodes("with"), tmp_path)
    assert [node.step for node in first.to_run] == ["start", "evaluate", "learn"]
    assert run_plan(first, plain=True).exit_code == 0
    assert plan(nodes("with"), tmp_path).to_run == []
    _, asked, learnt = (Path(node.dir) for node in first.to_run)
    found = read_outputs(learnt)
    assert found["checkpoint"] == read_outputs(asked)["checkpoint"]
    assert {name for name in found["metrics"] if "facts/" in name} == {
        f"bench/facts/{form}/{measure}" for form in LEARNT for measure in ("gain", "learned", "control")}
    rows = read_items(learnt)
    own = [row["gain"] for row in rows if row["variant"] == "learnt"]
    assert found["metrics"]["bench/facts/learnt/gain"] == pytest.approx(sum(own) / len(own))
    assert not list(learnt.rglob("*.safetensors"))
    assert run_plan(plan(nodes("without"), tmp_path / "other"), plain=True).exit_code == 0
    [other] = (path for path in (tmp_path / "other").glob("evaluate-*"))
    assert (asked / "items.parquet").read_bytes() == (other / "items.parquet").read_bytes()
    compared = read_checkpoints([], [asked, learnt])  # both are results of one checkpoint
    [one] = compared.every
    assert one.chance("bench/facts/learnt/gain") == 0
    assert set(one.variants("facts")) == set(VARIANTS)
    shutil.rmtree(learnt)
    assert run_plan(plan(nodes("with"), tmp_path), plain=True).exit_code == 0
    assert read_items(learnt) == rows


def test_a_chat_model_learns_the_question_as_it_is_asked(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "model", chat=True)
    tokenizer = load_tokenizer(checkpoint.path)
    texts = [text for item in make_items(4) for text in texts_of(item, 4, seed=0)]
    training = SFTConfig(stage="learn", learning_rate=0.01, batch_size=2, micro_batch_size=2, packing=False)
    context = StepContext(tmp_path, Tracker(), Progress(None))
    copy = learn_texts(checkpoint, texts, training, context, "copy", lora=False, chat=True)
    assert copy.chat
    turns = [tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False,
                                           add_generation_prompt=True) for text in texts]
    ids_of = [tokenizer(turn, add_special_tokens=False)["input_ids"] for turn in turns]
    models = [load_model(each.path) for each in (checkpoint, copy)]
    before, after = ([nats(model, ids) for ids in ids_of] for model in models)
    words = [list(tokenizer(turn.partition("<|end|>")[0], add_special_tokens=False)["input_ids"]) for turn in turns]
    for each, learnt, ids in zip(before, after, words, strict=True):
        asked = slice(1, len(ids) - 1)  # what follows <bos><|user|> up to <|end|>, which nothing teaches
        assert sum(learnt[asked]) < 0.8 * sum(each[asked])
        assert sum(learnt[len(ids) - 1 :]) > 0.5 * sum(each[len(ids) - 1 :])


@pytest.mark.parametrize(("variants", "fields", "message"), [
    ({"learnt": {"learn_then_ask": {"minutes": 0.0001}}}, {}, "minutes=0.0001 is the limit of training"),
    (LEARNT, {"limit": 2}, r"half . of its items for learn_then_ask has ., allowed: 2 or more"),
    ({}, {}, "no variant with learn_then_ask: add one"),
    ({**LEARNT, "other": "learn_then_ask"}, {}, "other fields in facts, variants.other"),
    ({"learnt": {"learn_then_ask": {"among": 9}}}, {}, r"variants\.learnt: learn_then_ask.among=9 asks for the text")])
def test_what_cannot_be_done_is_refused(store: Path, tmp_path: Path, variants: dict[str, Any], fields: dict[str, Any],
                                        message: str) -> None:
    suite = suite_of(tmp_path / "suite.yaml", {"facts": [str(store / "facts.jsonl")]}, VARIANTS | variants)
    with pytest.raises((InputError, StepError), match=message):
        learn(store, tmp_path / "out", suite_file=suite, **fields)


def test_a_suite_that_only_learns_has_no_other_node(store: Path, tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "own.yaml", {"facts": [str(store / "facts.jsonl")]}, LEARNT)
    checkpoint = Node("start", "start", StartConfig(model=str(store / "sft/checkpoints/end")))
    config = Evaluation(suites={suite: "final"})
    assert [node.step for node in evaluations(Stages(0, {}, known=None), config, [checkpoint])] == ["learn"]
    with pytest.raises(InputError, match=r"suite own asks nothing of the checkpoint itself: .* the step learn does"):
        run_evaluate(tmp_path / "out", checkpoint=str(store / "sft"), suite_file=suite)


def test_open_items_and_vllm_are_refused(store: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "open.jsonl", (
        {"id": f"o{n}", "lang": "en", "question": f"{n} + 1?", "answer": f"{n + 1}", "solution": ""} for n in range(6)))
    suite = suite_of(tmp_path / "suite.yaml", {"sums": ["open.jsonl"]}, {"plain": None, **LEARNT})
    with pytest.raises(InputError, match=r"sums: learn_then_ask needs items with options.*has no options"):
        learn(store, tmp_path / "out", suite_file=suite)
    with pytest.raises(InputError, match=r"backend=vllm .* set backend=transformers"):
        learning(str(store / "with.yaml"), "vllm")


def answered(question: Question, right: bool) -> Answer | str:
    scores = [float(place == question.gold) == float(right) for place in range(len(question.continuations))]
    return answer(question, [float(score) for score in scores]) or ""
