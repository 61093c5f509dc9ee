"""Records for post-training as people and tools write them: recognised, read into one form, or refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from argosy.corpus.data.formats import FORMATS, describe, read_record
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl
from argosy.corpus.data.records import read_files
from argosy.corpus.data.schemas import ParseError
from tests.shared_data import shared

Q = {"role": "user", "content": "Hi"}
A = {"role": "assistant", "content": "Hello"}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]}  # fmt: skip
PAIR = {"prompt": [Q], "chosen": [A], "rejected": [{"role": "assistant", "content": "No."}]}

CONVERSATIONS, REAL = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).values()


@pytest.mark.parametrize(("record", "expected"), CONVERSATIONS)
def test_conversations_of_each_format_become_messages(record: dict[str, Any], expected: dict[str, Any]) -> None:
    given = json.dumps(record)
    assert read_record("instructions", record) == {"lang": "", "kind": "", **expected}
    assert json.dumps(record) == given  # whoever keeps it aside has it whole


@pytest.mark.parametrize("record", [
    {"instruction": "Hi", "chosen": "Hello", "rejected": "No.", "output": ""},
    {"conversations": [{"from": "human", "value": "Hi"}], "chosen": {"from": "gpt", "value": "Hello"},
     "rejected": {"from": "gpt", "value": "No."}},
    {"prompt": "Hi", "chosen": "Hello", "rejected": "No."},
    {"prompt": [Q], "chosen": [Q, A], "rejected": [Q, {"role": "assistant", "content": "No."}]},  # the prompt thrice
    {"chosen_messages": [Q, A], "rejected_messages": [Q, {"role": "assistant", "content": "No."}]},
    {"chosen": [Q, A], "rejected": [Q, {"role": "assistant", "content": "No."}]},
    {"chosen": "\n\nHuman: Hi\n\nAssistant: Hello", "rejected": "\n\nHuman: Hi\n\nAssistant: No."}])  # fmt: skip
def test_pairs_of_each_format_have_the_prompt_apart(record: dict[str, Any]) -> None:
    found = read_record("preferences", record)
    assert {key: found[key] for key in PAIR} == PAIR


@pytest.mark.parametrize("record", [
    {"messages": [Q, A], "label": True},
    {"instruction": "Hi", "output": "Hello", "kto_tag": True},
    {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}], "kto_tag": True},
    {"prompt": "Hi", "completion": "Hello", "label": True}])  # fmt: skip
def test_feedback_of_each_format(record: dict[str, Any]) -> None:
    found = read_record("feedback", record)
    assert found == {"prompt": [Q], "completion": [A], "label": True}


@pytest.mark.parametrize(("record", "reference"), [
    ({"prompt": [Q], "answer": 3}, {"answer": "3"}),
    ({"question": "Hi", "answer": "3"}, {"answer": "3"}),
    ({"prompt": "Hi", "tests": ["assert f(1) == 2"]}, {"tests": ["assert f(1) == 2"]}),
    ({"prompt": "Hi", "tests": "assert f(1) == 2"}, {"tests": ["assert f(1) == 2"]}),
    ({"prompt": "Hi", "schema": '{"type": "object"}'}, {"schema": {"type": "object"}}),
    ({"prompt": "Hi", "pattern": "^a", "language": "zh"}, {"pattern": "^a", "language": "zh"}),
    ({"prompt": "Hi", "reward_model": {"ground_truth": "3"}}, {"answer": "3"}),
    ({"messages": [Q, A]}, {"answer": "Hello"})])  # fmt: skip
def test_prompts_keep_what_their_rewards_check(record: dict[str, Any], reference: dict[str, Any]) -> None:
    found = read_record("prompts", record)
    assert found.items() >= {"prompt": [Q], "format": "text", **reference}.items()


@pytest.mark.parametrize(("kind", "record", "reason", "value"), [
    ("instructions", {"text": "Hi"}, "fits no format", "an object with the keys text"),
    ("instructions", {"messages": [Q], "instruction": "Hi"}, "fits alpaca and messages", "messages, instruction"),
    ("instructions", {"messages": [{"role": "bot", "content": "Hi"}]}, "messages.role: allowed: system", "'bot'"),
    ("instructions", {"messages": [Q]}, "no message of the assistant", ""),
    ("instructions", {"messages": [Q, {**A, "weight": 0.5}]}, "messages.weight: allowed: 1 (or true), 0", "0.5"),
    ("instructions", {"messages": [{**Q, "train": True}, A]}, "messages.train: allowed: 0 for a turn that", "true"),
    ("instructions", {"messages": [Q, {**A, "weight": 0, "train": True}]}, "weight and train say different things", ""),
    ("instructions", {"messages": [Q, {**A, "train_detail": [{"begin_offset": 0, "end_offset": 2, "train": False}]}]},
     "messages.train_detail: a part of a turn cannot be left out", ""),
    ("instructions", {"messages": [Q, A], "weight": 0}, "weight: allowed: 1; leave records out", "0"),
    ("instructions", {"messages": [Q, A], "images": ["a.png"]}, "images: a record has text alone", "a.png"),
    ("instructions", {"messages": [{"role": "system", "content": "S."}, Q, A], "system": "T."},
     "system: allowed: one message of the system", "T."),
    ("preferences", {"prompt": [Q], "chosen": [{**A, "weight": 0}], "rejected": PAIR["rejected"]},
     "chosen has a turn that is not to be learnt", ""),
    ("prompts", {"messages": [Q, {**A, "train": False}]}, "the last turn is not to be learnt", ""),
    ("instructions", {"messages": [Q, {"role": "assistant", "content": [{"type": "image", "url": "x"}]}]},
     "content has a part of another type", "'image'"),
    ("instructions", {"conversations": [{"from": "function_call", "value": "add(1)"}]}, "function_call is not JSON",
     "add"),
    ("instructions", {"messages": [Q, A], "tools": [{"parameters": {}}]}, "tools: each needs a name", "a mapping"),
    ("instructions", {"chosen": "a", "rejected": "b", "prompt": "Hi"}, "is a preference pair: give its file as", ""),
    ("preferences", {"chosen": "a", "rejected": "b"}, "begin with no common turn", ""),
    ("preferences", {"chosen": "a", "rejected": "a", "prompt": "Hi"}, "chosen and rejected are equal", ""),
    ("prompts", {"prompt": "Hi", "pattern": "("}, "pattern: no regular expression", "missing ) at position 1"),
    ("prompts", {"prompt": "Hi", "tests": ["f(1)", "f("]}, "tests: test 2 is no Python", "'(' was never closed"),
    ("prompts", {"prompt": "Hi", "schema": {"type": "obj"}}, "schema: no JSON Schema", "'obj' is not valid"),
    ("feedback", {"prompt": "Hi", "completion": "a", "label": "yes"}, "label: allowed: true or false", "'yes'"),
    ("prompts", {"prompt": "Hi", "language": "fr"}, "language: allowed: 'en' or 'zh'", "'fr'"),
    ("feedback", {"messages": [Q], "label": True}, "the last turn is not the assistant's", "")])  # fmt: skip
def test_a_record_that_cannot_be_used_has_a_reason(kind: str, record: dict[str, Any], reason: str, value: str) -> None:
    with pytest.raises(ParseError) as error:
        read_record(kind, record)
    assert reason in str(error.value)
    assert value in error.value.value


def test_a_format_named_by_hand_is_taken() -> None:
    record = {"messages": [Q, A], "instruction": "kept", "kind": "x"}
    assert read_record("instructions", record, "messages") == {"lang": "", **record}
    assert list(FORMATS) == ["alpaca", "completion", "messages", "pairs", "prompt", "self_instruct", "sharegpt"]
    assert "sharegpt: conversations (from, value)" in describe()


BROKEN = {"fits no format": 1, "chosen and rejected are equal": 6}  # a null instruction; six pairs


def test_a_table_gives_the_records_that_json_does(tmp_path: Path) -> None:
    """Parquet fills the keys that a row's structs lack with null; a null in arguments that are JSON in a text stays."""
    def tool(name: str, **properties: str) -> dict[str, Any]:
        kinds = {key: {"type": kind} for key, kind in properties.items()}
        return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": kinds}}}

    def called(name: str, arguments: Any) -> dict[str, Any]:
        return CALL | {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}

    days = {"days": [{"from": "Monday"}, {"to": "Friday"}]}
    records = {"structs": [{"messages": [Q, called("add", {"a": 1})], "lang": "en", "tools": [tool("add", a="int")]},
                           {"messages": [Q, called("weather", {"city": "Bern", **days}), A],
                            "tools": [tool("weather", city="string", days="array"), tool("time")]}],
               "texts": [{"messages": [Q, called("add", '{"a": null}')]}, {"messages": [Q, A | {"weight": 0}, Q, A]}]}
    for name, own in records.items():
        pq.write_table(pa.Table.from_pylist(own), tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.json").write_text(json.dumps(own), encoding="utf-8")
    with JsonlWriters(tmp_path / "out") as writers:
        tables, lines = ([read_files("instructions", {name: str(tmp_path / f"{name}.{suffix}")}, {}, writers, "")[0]
                          for name in records] for suffix in ("parquet", "json"))
    assert tables == lines
    assert tables[1][0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"a": None}


def test_keys_of_messages_that_nothing_reads_are_counted(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "index": 0, "function": {"name": "f", "arguments": "{}", "strict": True}}
    turns = [{**Q, "id": 7}, {**A, "refusal": None, "tool_calls": [call]}, {**Q, "id": 8, "images": []},
             {"role": "assistant", "content": [{"type": "text", "text": "Hello", "annotations": [1]}], "weight": 0}]
    path = tmp_path / "own.json"
    path.write_text(json.dumps([{"messages": turns, "more": 1}, {"messages": [{**Q, "id": 1}, {**Q, "weight": 1}]}]))
    with JsonlWriters(tmp_path / "out") as writers:
        records, tally = read_files("instructions", {"own": str(path)}, {}, writers, str(tmp_path))
    assert (len(records), tally.rejected.total()) == (1, 1)
    assert tally.unread == {"messages.id": 2, "messages.tool_calls.index": 1, "messages.tool_calls.function.strict": 1,
                            "messages.content.annotations": 1}


def test_published_files_are_read(tmp_path: Path) -> None:
    rejected: dict[str, int] = {}
    with JsonlWriters(tmp_path) as writers:
        for kind, counts in REAL.items():
            files = {name: str(shared(name)) for name in counts}
            records, tally = read_files(kind, files, {}, writers, str(tmp_path))
            found = {name: sum(record["channel"] == name for record in records) for name in counts}
            assert found == counts
            rejected |= tally.rejected
    assert rejected == BROKEN
    kept = list(read_jsonl(tmp_path / "rejects/preferences.jsonl"))
    assert len(kept) == 6
    assert kept[0]["file"].startswith("ch07__04")
    number, raw = kept[0]["record"], json.loads(kept[0]["raw"])
    source = next(shared("llms_from_scratch").glob("ch07__04*"))
    assert json.loads(source.read_text(encoding="utf-8"))[number - 1] == raw
