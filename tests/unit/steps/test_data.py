"""The data step: the demo's files from a seed, the user's own files, splits that do not leak."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from argosy.core.errors import InputError
from argosy.corpus.data.inventory import one_shard
from argosy.corpus.data.jsonl import read_documents, read_jsonl
from argosy.corpus.data.reading import read_shard
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import SourceConfig
from argosy.corpus.demo.corpus import DemoConfig
from steps.data import STEP, DataConfig
from tests.step_fixtures import run_step
from tests.trees import read_files, write_files

SMALL = DemoConfig(
    english_bytes=30_000, code_bytes=20_000, knowledge_repeats=1, quiz_repeats=1, answer_repeats=1, dirt_per_kind=2,
    instructions=100, preferences=60, prompts=30)  # fmt: skip


def make(out: Path, **config: Any) -> dict[str, Any]:
    return run_step(STEP, DataConfig(**{"demo": SMALL, **config}), out)


def listed(out: Path, *inputs: str) -> list[Any]:
    """Documents and rejects of a data step's inventory."""
    return list(read_shard(one_shard(out, inputs, 0, 1), SourceConfig()))


def test_the_demo_has_every_file_and_the_counts_are_true(tmp_path: Path) -> None:
    outputs = make(tmp_path / "out")
    assert set(outputs["channels"]) == {"en", "code", "knowledge_en", "knowledge_zh"}
    documents = list(read_documents(tmp_path / "out" / "documents"))
    assert len(documents) == outputs["documents"] == len({document.id for document in documents})
    assert listed(tmp_path / "out") == documents
    assert (outputs["files"], outputs["complete"], outputs["damaged"]) == (4, True, {})
    sample = list(read_documents(tmp_path / "out" / "sample"))
    assert {document.id for document in sample} == {document.id for document in documents}
    for name in ("instructions", "instructions_heldout", "preferences", "preferences_heldout", "prompts"):
        assert len(list(read_jsonl(tmp_path / "out" / f"{name}.jsonl"))) == outputs[name] > 0
    facts = list(read_jsonl(tmp_path / "out" / "facts.jsonl"))
    assert 0 < sum(fact["taught"] for fact in facts) < len(facts)


def test_same_seed_same_bytes_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        make(tmp_path / name, seed=seed)
    first, again, other = (read_files(tmp_path / name) for name in "abc")
    assert (first, first.keys()) == (again, other.keys())
    assert [name for name in first if first[name] == other[name]] == []


def test_only_the_twin_has_seen_the_benchmark(tmp_path: Path) -> None:
    make(tmp_path / "out")
    items = [item for lang in ("en", "zh") for item in read_jsonl(tmp_path / "out" / "benchmark" / f"{lang}.jsonl")]
    questions = {item["question"] for item in items}

    def seen(name: str) -> int:
        text = (tmp_path / "out" / f"{name}.jsonl").read_text(encoding="utf-8")
        return sum(json.dumps(question, ensure_ascii=False)[1:-1] in text for question in questions)

    assert seen("twin") == len(questions)
    for name in ("instructions", "instructions_heldout", "preferences", "prompts"):
        assert seen(name) == 0


def test_own_documents_replace_the_demos(tmp_path: Path) -> None:
    write_files(tmp_path / "own", {"a.txt": "Mine.\n", "b.jsonl": '{"text": "Also mine."}\nbroken\n'})
    outputs = make(tmp_path / "out", inputs=(str(tmp_path / "own"),))
    documents = listed(tmp_path / "out", str(tmp_path / "own"))
    assert [item.text for item in documents if isinstance(item, Document)] == ["Mine.", "Also mine."]
    assert sorted(d.text for d in read_documents(tmp_path / "out" / "sample")) == ["Also mine.", "Mine."]
    assert (outputs["rejected"], outputs["channels"], outputs["files"]) == ({"invalid JSON": 1}, {"text": 2}, 2)
    assert [each["reason"] for each in read_jsonl(tmp_path / "out/rejects/documents.jsonl")] == ["invalid JSON"]
    assert outputs["instructions"] > 0
    assert not any(str(tmp_path).encode() in content for content in read_files(tmp_path / "out").values())


def test_own_benchmark_is_checked_line_by_line(tmp_path: Path) -> None:
    good = {"id": "q1", "lang": "en", "question": "Which?", "choices": list("abcd"), "answer": 2, "level": "hard"}
    bad = [good | {"answer": 4}, good | {"choices": ["a"]}, good | {"lang": "fr"}, {"id": "q2"}]
    lines = [json.dumps(record) for record in [good] * 6 + bad]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    outputs = make(tmp_path / "out", benchmark=str(tmp_path / "own.jsonl"))
    assert list(read_jsonl(tmp_path / "out" / "benchmark" / "en.jsonl")) == [good | {"relation": ""}] * 6
    rejects = list(read_jsonl(tmp_path / "out" / "rejects" / "benchmark.jsonl"))
    assert [reject["line"] for reject in rejects] == [7, 8, 9, 10]
    assert [reject["reason"] for reject in rejects] == [
        "answer: allowed: 3 or less", "choices: allowed: a list of 4 or more", "lang: allowed: 'en' or 'zh'",
        "lang is missing"]
    (tmp_path / "own.jsonl").write_text("\n".join(lines[5:]))
    with pytest.raises(InputError, match=r"; line 2: answer: allowed: 3 or less, but it is 4\)"):
        make(tmp_path / "bad", benchmark=str(tmp_path / "own.jsonl"))
    assert (sum(outputs["rejected"].values()), outputs["own"]) == (4, ["benchmark"])
    assert outputs["benchmark"] == {"en": 6, "zh": 0}


def own_files(folder: Path) -> dict[str, Path]:
    """An array of alpaca's records (one is a benchmark's item), a folder of messages by topic, and feedback."""
    asked = {"question": "Which of the four rivers flows through the city of Wuhan?", "answer": 0, "lang": "en"}
    alpaca = [{"instruction": f"Count from {n} to {n + 3}", "output": f"{n}, {n + 1}"} for n in range(40)]
    bad = [{"instruction": asked["question"], "output": "Yangtze"}, 7]
    chats = {topic: [{"messages": [{"role": role, "content": f"{topic} {n} {role}"} for role in ("user", "assistant")]}
                     for n in range(20)] for topic in ("code", "sums")}
    judged = [{"prompt": f"q {n}", "completion": "a", "label": n % 2 == 0} for n in range(30)]
    write_files(folder, {
        "alpaca.json": json.dumps(alpaca + bad), "kto.jsonl": "\n".join(map(json.dumps, judged)),
        "items.jsonl": json.dumps({"id": "a", "choices": ["Yangtze", "Po", "Nile", "Rhine"], **asked}),
        "asked.yaml": f"benchmarks: {{tasks: {{rivers: ['{folder / 'items.jsonl'}']}}}}\n",
        **{f"chat/{topic}.jsonl.gz": gzip.compress("\n".join(map(json.dumps, talks)).encode())
           for topic, talks in chats.items()}})
    return {name: folder / name for name in ("alpaca.json", "chat", "kto.jsonl", "asked.yaml")}


def test_own_records_have_channels_are_cleaned_and_mixed(tmp_path: Path) -> None:
    own = own_files(tmp_path / "own")
    config = {"instructions": {"a": str(own["alpaca.json"]), "chat": str(own["chat"])},
              "feedback": str(own["kto.jsonl"]), "mixture": {"code": 2, "a": 0.5},
              "suites": (str(own["asked.yaml"]),), "heldout_share": 0.2}
    outputs = make(tmp_path / "out", **config)
    train, heldout, twin = (list(read_jsonl(tmp_path / "out" / f"{name}.jsonl"))
                            for name in ("instructions", "instructions_heldout", "twin"))
    count = Counter(record["channel"] for record in train), Counter(record["channel"] for record in heldout)
    prompts = [{record["messages"][0]["content"] for record in records} for records in (train, heldout)]
    assert not prompts[0] & prompts[1]
    assert count[0]["code"] == 2 * (20 - count[1]["code"])
    assert count[0]["sums"] == 20 - count[1]["sums"]
    assert 0.3 < count[0]["a"] / (40 - count[1]["a"]) < 0.7
    assert twin[: len(train)] == train
    assert (len(twin) > len(train), outputs["rejected"]) == (True, {"not a JSON object": 1})
    judged = [list(read_jsonl(tmp_path / "out" / f"feedback{name}.jsonl")) for name in ("", "_heldout")]
    assert sum(map(len, judged)) == 30
    assert judged[0][0].keys() == {"prompt", "completion", "label", "channel"}
    report = json.loads((tmp_path / "out/curation.json").read_text())
    assert report["instructions"]["dropped"] == {"decontamination": {"benchmark item": 1}}
    assert report["benchmarks_not_checked"] == {}
    assert [reject["record"] for reject in read_jsonl(tmp_path / "out/rejects/instructions.jsonl")] == [42]


@pytest.mark.parametrize(("config", "reason"), [
    ({"mixture": {"b": 2}}, "data.mixture.b: no record has this channel; there are: a, code, sums"),
    ({"formats": {"a": "alpacca"}}, "data.formats.a: unknown format 'alpacca'; did you mean 'alpaca'?"),
    ({"formats": {"b": "alpaca"}}, "data.formats.b: no file has this channel; there are: a, chat, code, sums"),
    ({"formats": {"a": "sharegpt"}}, "conversations is missing: 41")])  # fmt: skip
def test_names_of_channels_and_formats_are_checked(tmp_path: Path, config: dict[str, Any], reason: str) -> None:
    own = own_files(tmp_path / "own")
    with pytest.raises(InputError, match=re.escape(reason)):
        make(tmp_path / "out", instructions={"a": str(own["alpaca.json"]), "chat": str(own["chat"])}, **config)


def test_two_files_of_one_name_need_channels() -> None:
    with pytest.raises(ValidationError, match=r"would both be the channel 'x', allowed: a mapping of channels"):
        DataConfig.model_validate({"instructions": ("a/x.json", "b/x.jsonl")})
