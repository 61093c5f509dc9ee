"""Tasks of suites: where their items come from, what samples they take, and that the shipped suites are whole."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from datasets import Dataset, DatasetDict

from argosy.core.errors import InputError
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.suite import load_suite, named_files
from evals.chain import parse_chain
from evals.items import Item
from evals.section import Benchmarks, check_benchmarks, describe_samples, make_questions, read_tasks
from evals.task import TaskSpec, read_examples, read_task
from tests.evaluation_fixtures import make_items, write_items
from tests.shared_data import shared
from tests.trees import write_files

ROOT = Path(__file__).parents[3]
SUITES = sorted((ROOT / "evals/suites").glob("*.yaml"))


@pytest.fixture(autouse=True)
def no_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARGOSY_BENCHMARKS", raising=False)


def spec(**fields: Any) -> TaskSpec:
    return TaskSpec.model_validate(fields)


def test_files_are_looked_for_below_data_and_then_below_the_benchmarks_folder(tmp_path: Path,
                                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    write_items(tmp_path / "data/a/x.jsonl", make_items(4))
    write_items(tmp_path / "root/b/c/y.jsonl", make_items(6))
    assert len(read_task(spec(files=["a/*.jsonl"]), tmp_path / "data").items) == 4
    other = spec(files="b/**/*.jsonl", source="https://example.org (some licence), as b/")
    with pytest.raises(InputError, match=r"b/\*\*/\*\.jsonl\. Get it from https://example\.org .* set ARGOSY_BENCHM"):
        read_task(other, tmp_path / "data")
    monkeypatch.setenv("ARGOSY_BENCHMARKS", str(tmp_path / "root"))
    assert len(read_task(other, tmp_path / "data").items) == 6
    assert read_task(spec(files=["no/*.csv"], source="S", optional=True),
                     tmp_path).left_out == {"no file no/*.csv; get it from S": 1}
    with pytest.raises(InputError, match="Correct the path"):
        read_task(spec(files=["no/*.csv"]), tmp_path)
    with pytest.raises(ValueError, match="give files, or hf"):
        spec(format="mmlu")


def test_files_of_equal_names_keep_all_their_items(tmp_path: Path) -> None:
    """Ids are longer there alone, by as many folders as tell the files apart."""
    for n, name in enumerate(("a/one/test.csv", "b/one/test.csv", "c/test.csv", "c/other.csv", "d/x.csv", "d/x.json")):
        rows = "".join(f"Which is {n} {m}?,one,two,A\n" for m in range(2))
        write_files(tmp_path, {name: rows if name.endswith("csv") else "[]"})
    found = read_task(spec(files=["**/*.csv", "c/*.csv"]), tmp_path)
    assert not found.left_out
    assert [item.id for item in found.items] == [
        f"{name}/{n}" for name in ("a/one/test", "b/one/test", "other", "c/test", "x") for n in range(2)]
    assert {item.subject for item in found.items} == {"test", "other", "x"}


def test_a_sample_is_the_same_whatever_order_and_company(tmp_path: Path) -> None:
    items = make_items(200)
    write_items(tmp_path / "a.jsonl", items)
    write_items(tmp_path / "b.jsonl", items[::-1][:150])
    sample = read_task(spec(files=["a.jsonl"], limit=40), tmp_path).items
    assert [item.id for item in sample] == [item.id for item in items if item in sample]  # in the file's order
    assert len(sample) == 40
    rest = {item.id for item in read_task(spec(files=["b.jsonl"], limit=40), tmp_path).items}
    assert {item.id for item in sample if item in items[50:]} <= rest
    more = read_task(spec(files=["a.jsonl"], limit=60), tmp_path).items
    assert {item.id for item in sample} < {item.id for item in more}


def test_a_saved_dataset_of_hugging_face_is_read_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"question": f"Q{n}", "subject": ("art", "law")[n % 2], "choices": list("wxyz"), "answer": n % 4}
            for n in range(8)]  # fmt: skip
    splits = {"test": Dataset.from_list(rows), "dev": Dataset.from_list(rows[:3])}
    DatasetDict(splits).save_to_disk(str(tmp_path / "saved"))
    task = spec(hf="saved", format="mmlu", shots_split="dev", limit=6)
    found = read_task(task, tmp_path).items
    assert len(found) == 6
    assert all(isinstance(item, Item) and item.answer == int(item.question[1:]) % 4 for item in found)
    assert {item.subject for item in read_examples(task, tmp_path)} == {"law", "art"}
    both = spec(files=["no.csv"], hf="saved", format="mmlu")
    monkeypatch.setenv("ARGOSY_BENCHMARKS", "huggingface")
    assert len(read_task(both, tmp_path).items) == 8
    with pytest.raises(InputError, match=r"dataset saved, split val cannot be loaded: .*; correct hf, config or split"):
        read_task(spec(hf="saved", format="mmlu", split="val"), tmp_path)
    with pytest.raises(InputError, match=r"no usable item; rows left out: {'choices are not labels with texts': 8}"):
        read_task(spec(hf="saved", format="arc"), tmp_path)


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_every_shipped_suite_is_whole_and_says_where_its_files_are_from(path: Path) -> None:
    suite = load_suite(str(path))
    if suite.benchmarks is not None:
        section = suite.section("benchmarks", Benchmarks)
        check_benchmarks(section, suite.name)
        assert path.stem in ("benchmark", "facts", "learning") or all(task.source for task in section.tasks.values())


def test_a_suite_takes_tasks_from_others_and_their_bytes_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_items(tmp_path / "items.jsonl", make_items(4))
    theirs = {"benchmarks": {"tasks": {"mine": {"files": ["items.jsonl"], "source": "S", "limit": 3}}}}
    (tmp_path / "theirs.yaml").write_text(yaml.safe_dump(theirs))
    again = {"use": "theirs.yaml", "task": "mine"}
    used = {"mine": {"use": "theirs", "limit": 2}, "again": again, "mmlu": {"use": "mmlu", "limit": 5}}
    own: dict[str, Any] = {"benchmarks": {"tasks": used}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own))
    tasks = load_suite(str(tmp_path / "own.yaml")).section("benchmarks", Benchmarks).tasks
    assert [len(read_task(tasks[name], tmp_path).items) for name in ("mine", "again")] == [2, 3]
    assert (tasks["mmlu"].format, tasks["mmlu"].limit) == ("mmlu", 5)
    write_files(tmp_path / "root", {"mmlu/law_test.csv": "Q,a,b,A\n"})
    monkeypatch.setenv("ARGOSY_BENCHMARKS", str(tmp_path / "root"))
    counted = {Path(file).name for file in named_files(str(tmp_path / "own.yaml"))}
    assert counted == {"items.jsonl", "theirs.yaml", "mmlu.yaml", "law_test.csv"}
    own["benchmarks"]["tasks"]["mine"]["use"] = "their"
    (tmp_path / "own.yaml").write_text(json.dumps(own))
    with pytest.raises(InputError, match="use is 'their'; did you mean 'theirs'"):
        load_suite(str(tmp_path / "own.yaml"))


def test_categories_of_mmlu_have_every_subject_once() -> None:
    data = shared("mmlu").parent
    tasks = load_suite("mmlu").section("benchmarks", Benchmarks).tasks
    listed = sorted(subject for subjects in tasks["mmlu"].categories.values() for subject in subjects)
    assert listed == sorted({item.subject for item in read_task(tasks["mmlu"], data, 1).items})
    assert len(read_task(tasks["mmlu"], data).items) == 14033  # 9 of the 14,042 have an option twice


def test_shots_of_files_with_the_names_of_the_items_files_are_all_shown(tmp_path: Path) -> None:
    """CMMLU has test/anatomy.csv and dev/anatomy.csv: a row has the same id in both."""
    for folder, count in (("test", 7), ("dev", 5)):
        rows = [f"{n},{folder}第{n}题是？,甲{n},乙{n},丙{n},丁{n},{'ABCD'[n % 4]}\n" for n in range(count)]
        write_files(tmp_path / "cmmlu", {f"{folder}/anatomy.csv": ",Question,A,B,C,D,Answer\n" + "".join(rows)})
    task = load_suite("cmmlu").section("benchmarks", Benchmarks).tasks["cmmlu"]
    chain = parse_chain("x", {"few_shot": {"n": 5, "choose": "first"}})
    questions, left_out = chain.all_questions(read_task(task, tmp_path).items, 0, read_examples(task, tmp_path, chain))
    assert not left_out
    assert len(questions) == 7
    for question in questions:
        asked = [line for line in question.prompt.splitlines() if "题是" in line]
        assert asked[:5] == [f"dev第{n}题是？" for n in range(5)]


@pytest.mark.parametrize("optional", [True, False])
def test_absent_shots_fail_the_variant_or_leave_it_out_by_name(optional: bool, tmp_path: Path) -> None:
    task = spec(files=["a.jsonl"], shots=["dev.jsonl*"], source="S", optional=optional)
    chains = [("plain", None), ("x", {"few_shot": {"n": 2}})]
    if optional:
        assert read_task(task, tmp_path).items == read_examples(task, tmp_path) == []  # it is left out as a whole
    write_items(tmp_path / "a.jsonl", make_items(8))
    with pytest.raises(InputError, match=r"no file \S*dev\.jsonl\*[.;] [Gg]et it from S"):
        read_examples(task, tmp_path)
    findings = Findings()
    batches = make_questions(read_tasks({"t": task}, dict(chains), tmp_path, None, findings), 0, findings)
    assert [batch.chain.name for batch in batches] == ["plain"]
    assert list(findings.left_out if optional else findings.failed) == ["bench/t/x"]
    assert not (findings.failed if optional else findings.left_out)
    write_items(tmp_path / "dev.jsonl", make_items(4, seed=9))
    assert len(read_examples(task, tmp_path)) == 4


def test_a_task_of_lm_eval_is_used_with_the_folder_of_its_suite(tmp_path: Path) -> None:
    own = "benchmarks: {include_path: yaml, tasks: {river: {lm_eval: river}}}"
    mine = "benchmarks: {include_path: other, tasks: {river: {use: theirs/own.yaml}, lake: {lm_eval: lake}}}"
    write_files(tmp_path, {"theirs/own.yaml": own, "mine.yaml": mine, "theirs/yaml/a": "", "other/a": ""})
    section = load_suite(str(tmp_path / "mine.yaml")).section("benchmarks", Benchmarks)
    assert section.tasks["river"].include_path == str(tmp_path / "theirs/yaml")
    assert section.tasks["lake"].include_path == str(tmp_path / "other")
    assert str(tmp_path / "theirs/yaml") in named_files(str(tmp_path / "mine.yaml"))


def test_a_small_sample_says_before_it_is_asked_what_difference_it_could_show(tmp_path: Path) -> None:
    write_items(tmp_path / "few.jsonl", make_items(100))
    write_items(tmp_path / "many.jsonl", make_items(700))
    specs = {name: spec(files=f"{name}.jsonl") for name in ("few", "many")}
    tasks = read_tasks(specs, {"plain": None, "cloze": None}, tmp_path, None, findings := Findings())
    (line,) = describe_samples(make_questions(tasks, 0, findings))
    assert line == ("bench/few: 100 independent items can show a difference of 13 points or more between two "
                    "checkpoints; 625 would show 5")


def test_letters_in_their_published_order_are_in_the_headline_only_where_no_form_moves_them(tmp_path: Path) -> None:
    write_items(tmp_path / "x.jsonl", make_items(8))
    moved = {"plain": None, "cloze": None, "permuted": {"permuted": {"k": 2}}, "written": "generative"}
    still = {"plain": None, "cloze": None}
    for variants, expected in ((moved, {"cloze", "cloze/acc_norm", "permuted", "written"}),
                               (still, {"plain", "cloze", "cloze/acc_norm"})):
        tasks = read_tasks({"t": spec(files="x.jsonl")}, variants, tmp_path, None, findings := Findings())
        make_questions(tasks, 0, findings)
        assert set(findings.headline["t"]) == expected
