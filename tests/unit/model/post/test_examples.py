"""Examples to learn from: which tokens count, which records are refused, in which rows and order the rest comes."""

import json
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.counts import Rejects, read_records
from argosy.corpus.data.schemas import ParseError
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.post.config import PreferenceConfig, training_order
from argosy.model.post.preferences.examples import preference_parser
from argosy.model.post.rl.prompts import hold_out, prompt_parser
from argosy.model.post.sft import Rows, Sample, sample_parser
from argosy.model.weights.chat import end_tokens
from argosy.model.weights.templates import use_template
from tests.posttraining_fixtures import make_tokenizer
from tests.step_fixtures import write_lines


def turns(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in pairs]


@pytest.mark.parametrize("name", ["chatml", "qwen"])
def test_a_side_of_a_pair_ends_as_sampled_answers_do(name: str) -> None:
    """ChatML writes a line break behind <|im_end|>: a reward model that learnt there would be asked elsewhere."""
    tokenizer = deepcopy(make_tokenizer())
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    use_template(tokenizer, name)
    pair = preference_parser(tokenizer, 999)({"prompt": turns(("user", "hi")), "chosen": turns(("assistant", "yes")),
                                             "rejected": turns(("assistant", "no"))})
    words = tokenizer("yes", add_special_tokens=False)["input_ids"]
    *answer, end = pair.chosen_ids[len(pair.prompt_ids) :]
    assert (answer, end in end_tokens(tokenizer)) == (words, True)


@pytest.mark.parametrize(("record", "reason"), [
    ({"messages": turns(("user", "hello"))}, "no message of the assistant"),
    ({"words": "hello"}, "messages is missing"),
    ({"text": " "}, "empty text"),
    ({"messages": turns(("robot", "hi"))}, r"messages\.role: allowed: 'system', 'user', 'assistant' or 'tool'"),
    ({"messages": turns(("user", "x" * 200), ("assistant", "y"))}, "longer than 96 tokens"),
    ({"prompt": turns(("user", "say red")), "chosen": turns(("assistant", "x" * 200)),
      "rejected": turns(("assistant", "blue"))}, "longer than 96 tokens")])  # fmt: skip
def test_unusable_records_are_refused_by_name(tokenizer: Any, record: dict[str, Any], reason: str) -> None:
    parser = preference_parser if "chosen" in record else sample_parser
    with pytest.raises(ParseError, match=reason):
        parser(tokenizer, 96)(record)


def test_bad_lines_are_kept_aside_with_their_place_beside_a_usable_one(tokenizer: Any, tmp_path: Path) -> None:
    good = json.dumps({"messages": turns(("user", "a"), ("assistant", "b"))})
    only_user = json.dumps({"messages": turns(("user", "a"))})
    (tmp_path / "chat.jsonl").write_bytes(f"{good}\n{{broken\n\n{only_user}\n".encode() + b"\xff\xfe\n")
    rejects = Rejects()
    read = read_records(tmp_path / "chat.jsonl", sample_parser(tokenizer, 96), rejects)
    rejects.write(tmp_path)
    assert len(read) == 1
    assert rejects.counts() == {"invalid JSON": 1, "invalid UTF-8": 1, "no message of the assistant": 1}
    kept = [json.loads(line) for line in (tmp_path / "rejects" / "chat.jsonl").read_text().splitlines()]
    assert [(line["file"], line["line"]) for line in kept] == [("chat.jsonl", 2), ("chat.jsonl", 4), ("chat.jsonl", 5)]
    assert kept[1]["raw"] == only_user + "\n"
    write_lines(tmp_path / "chat.jsonl", [{"messages": turns(("user", "a"))}] * 2)
    with pytest.raises(InputError, match=r"chat\.jsonl has no usable record: 2 x no message of the assistant"):
        read_records(tmp_path / "chat.jsonl", sample_parser(tokenizer, 96), Rejects())
    with pytest.raises(InputError, match="does not exist"):
        read_records(tmp_path / "none.jsonl", sample_parser(tokenizer, 96), Rejects())


def test_order_has_each_example_once_an_epoch_in_batches_of_like_length() -> None:
    lengths = [(index * 37) % 101 + 1 for index in range(256)]
    order = training_order(lengths, 16, 2, seed=3)
    assert Counter(order) == dict.fromkeys(range(256), 2)
    assert sorted(order[:256]) == list(range(256))

    def padded(indices: list[int]) -> int:
        return sum(16 * max(lengths[i] for i in indices[at : at + 16]) for at in range(0, len(indices), 16))

    assert padded(order) < 0.65 * padded(list(range(256)) * 2)
    assert order == training_order(lengths, 16, 2, seed=3) != training_order(lengths, 16, 2, seed=4)
    short = [5] * 21  # whose last batch is filled by the next epoch
    assert Counter(training_order(short, 8, 3, seed=1)) == dict.fromkeys(range(21), 3)
    assert len(training_order(short, 8, 0.5, seed=1)) == 11


def test_held_out_prompts_are_never_trained_on(tokenizer: Any) -> None:
    parse = prompt_parser(tokenizer, 96)
    records = [{"prompt": turns(("user", f"say {n % 20}")), "accept": ["x"]} for n in range(60)]
    train, heldout = hold_out([parse(record) for record in records], 4, seed=0)
    questions = {prompt.messages[0]["content"] for prompt in train}
    assert len(heldout) == 4
    assert len(train) == 60 - 4 * 3
    assert not questions & {prompt.messages[0]["content"] for prompt in heldout}
    with pytest.raises(InputError, match="all equal"):
        hold_out([parse(records[0])] * 3, 4, seed=0)


def test_batches_of_pairs_are_full_and_as_many_whatever_the_processes() -> None:
    lengths = [1 + i % 7 for i in range(21)]
    config = PreferenceConfig(batch_size=8, micro_batch_size=4, seed=1)
    batches = config.batches(lengths)
    assert [len(batch) for batch in batches] == [8, 8, 8]  # the nearest to one pass
    assert config.model_copy(update={"processes": 2}).batches(lengths) == batches
    with pytest.raises(InputError, match="batch_size=8 is more than the 3 examples that there are"):
        config.batches(lengths[:3])


LENGTH = 16


def sample(number: int, size: int, answer: int, channel: str = "a") -> Sample:
    """Tokens that no other sample has; the last `answer` of them are the assistant's."""
    ids = np.arange(size, dtype=np.int32) + 100 * number
    return Sample(ids, np.arange(size) >= size - answer, channel)


SAMPLES = [sample(n, 3 + 7 * n % 13, 1 + n % 2, "ab"[n % 2]) for n in range(40)]


def documents_of(rows: Rows, position: int) -> list[tuple[list[int], list[int]]]:
    """The inputs and targets of each document of a row, without what is behind the last one."""
    batch = rows.batch(range(position, position + 1))
    found = []
    for number in sorted(set(batch.documents[0].tolist())):
        where = batch.documents[0] == number
        if (batch.targets[0][where] != IGNORED).any():
            found.append((batch.inputs[0][where].tolist(), batch.targets[0][where].tolist()))
    return found


@pytest.mark.parametrize("packing", [True, False])
def test_each_epoch_has_every_conversation_once_and_whole(packing: bool) -> None:
    rows = Rows(SAMPLES, LENGTH, 5, packing=packing)
    expected = {(tuple(each.ids[:-1].tolist()), tuple(np.where(each.answers, each.ids, IGNORED)[1:].tolist()))
                for each in SAMPLES}
    orders = []
    for epoch in range(3):
        found = [tuple(map(tuple, document)) for row in range(len(rows))
                 for document in documents_of(rows, epoch * len(rows) + row)]
        assert Counter(found) == dict.fromkeys(expected, 1)
        orders.append(found)
    assert orders[0] != orders[1] != orders[2]
    assert len(rows) == len(SAMPLES) if not packing else len(rows) < 0.6 * len(SAMPLES)


def test_a_row_depends_on_the_data_the_seed_and_its_place_alone() -> None:
    rows, same, other = (Rows(SAMPLES, LENGTH, seed) for seed in (5, 5, 6))
    whole = rows.batch(range(30, 38))
    for name in ("inputs", "targets", "channels", "documents"):
        parts = [getattr(same.batch(range(at, at + 2)), name) for at in (36, 30, 34, 32)]  # in any order
        assert (np.concatenate([parts[index] for index in (1, 3, 2, 0)]) == getattr(whole, name)).all()
    assert (other.batch(range(30, 38)).inputs != whole.inputs).any()
    assert not set(whole.documents[0].tolist()) & set(whole.documents[1:].flatten().tolist())


def test_losses_are_counted_in_the_channel_of_each_conversation_and_prompts_apart() -> None:
    plain, prompts = Rows(SAMPLES, LENGTH, 5), Rows(SAMPLES, LENGTH, 5, prompts=True)
    assert (plain.names, prompts.names) == (("a", "b"), ("a", "b", "a_prompts", "b_prompts"))
    assert prompts.weights([2.0, 1.0], 0.25) == [2.0, 1.0, 0.5, 0.25]
    assert plain.weights([2.0, 1.0], 0.25) == [2.0, 1.0]
    counts: Counter[str] = Counter()
    for row in range(len(plain)):
        for rows in (plain, prompts):
            batch = rows.batch(range(row, row + 1))
            scored = batch.targets != IGNORED
            owners = "".join("ab"[token // 100 % 2] for token in batch.targets[scored].tolist())
            names = [rows.names[channel] for channel in batch.channels[scored].tolist()]
            assert "".join(name[0] for name in names) == owners
            counts.update(f"{name}{len(rows.names)}" for name in names)
    for index, channel in enumerate("ab"):
        own = SAMPLES[index::2]
        answers = sum(int(each.answers.sum()) for each in own)
        assert counts[f"{channel}2"] == counts[f"{channel}4"] == answers
        assert counts[f"{channel}_prompts4"] == sum(len(each.ids) - 1 for each in own) - answers


def test_a_long_text_fills_several_rows_and_all_of_its_tokens_are_learnt() -> None:
    text = Sample(np.arange(50, dtype=np.int32), np.ones(50, np.bool_), "text")
    rows = Rows([text, sample(1, 9, 2)], LENGTH, 0)
    targets = [token for row in range(len(rows)) for token in rows.batch(range(row, row + 1)).targets[0].tolist()
               if token != IGNORED and token < 100]
    assert sorted(targets) == list(range(1, 50))
