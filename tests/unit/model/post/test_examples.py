"""What SFT learns from: which tokens count, which records are refused, and in which order the rest comes."""

import json
from collections import Counter
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.step.contract import Progress, StepContext
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.data.counts import Rejects, read_records
from argosy.corpus.data.schemas import ParseError, parse_record
from argosy.model.post.config import PosttrainingConfig, PreferenceConfig, training_order
from argosy.model.post.preferences.examples import preference_parser
from argosy.model.post.rl.prompts import hold_out, prompt_parser
from argosy.model.post.sft import sample_parser
from argosy.model.post.stage import begin
from argosy.model.weights.chat import end_tokens
from argosy.model.weights.templates import use_template
from tests.posttraining_fixtures import make_checkpoint, make_tokenizer
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


def test_prompt_is_the_conversation_up_to_the_last_answer(tokenizer: Any) -> None:
    messages = turns(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    conversation = sample_parser(tokenizer, 96, prompts=True)({"messages": messages})
    assert tuple(conversation.ids[: len(conversation.prompt)]) == conversation.prompt
    assert tokenizer.decode(conversation.prompt).endswith("<|user|>c<|end|><|assistant|>")
    assert conversation.reply == "d"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"messages": turns(("user", "hello"))}, "no message of the assistant"),
        ({"words": "hello"}, "messages is missing"),
        ({"text": " "}, "empty text"),
        ({"messages": turns(("robot", "hi"))}, r"messages\.role: allowed: 'system', 'user', 'assistant' or 'tool'"),
        ({"messages": turns(("user", "x" * 200), ("assistant", "y"))}, "longer than 96 tokens"),
        ({"prompt": turns(("user", "say red")), "chosen": turns(("assistant", "x" * 200)),
          "rejected": turns(("assistant", "blue"))}, "longer than 96 tokens"),
    ],
)  # fmt: skip
def test_unusable_records_are_refused_by_name(tokenizer: Any, record: dict[str, Any], reason: str) -> None:
    parser = preference_parser if "chosen" in record else sample_parser
    with pytest.raises(ParseError, match=reason):
        parser(tokenizer, 96)(record)


@pytest.mark.parametrize(("kind", "fields", "reason"), [
    ("prompts", {"accept": []}, "accept: allowed: a list of 1 or more"),
    ("prompts", {"accept": [""]}, "accept: empty text"),
    ("prompts", {"accept": ["x"], "format": "essay"}, "format: allowed: 'text', 'letter' or 'json'"),
    ("preferences", {"chosen": turns(("assistant", "x")), "rejected": turns(("assistant", "x"))},
     "chosen and rejected are equal"),
    ("preferences", {"chosen": turns(("user", "hi"), ("assistant", "x")), "rejected": turns(("assistant", "y"))},
     "chosen has a turn that is not the assistant's"),
    ("prompts", {"accept": ["x"]}, ""),
])  # fmt: skip
def test_the_data_step_and_the_stages_refuse_the_same_records(tokenizer: Any, kind: str, fields: Any,
                                                              reason: str) -> None:
    parsers = {"prompts": prompt_parser(tokenizer, 96), "preferences": preference_parser(tokenizer, 96)}
    for parse in (partial(parse_record, kind), parsers[kind]):
        record = {"prompt": turns(("user", "say x")), **fields}
        with pytest.raises(ParseError, match=reason) if reason else nullcontext():
            parse(record)


def test_a_length_beyond_the_checkpoints_context_is_refused(tmp_path: Path) -> None:
    config = PosttrainingConfig(checkpoint=str(make_checkpoint(tmp_path / "sft")), max_length=97)
    with pytest.raises(InputError, match="max_length=97 is more than the 96 tokens of the checkpoint's context"):
        begin(config, StepContext(tmp_path, Tracker(None), Progress(None)))


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


def test_max_steps_is_the_number_of_steps_whatever_the_epochs() -> None:
    lengths = [1 + index % 7 for index in range(20)]
    order = training_order(lengths, 8, 0.05, seed=1, max_steps=5)  # two passes, each of another order
    assert len(order) == 5 * 8
    assert Counter(order) == dict.fromkeys(range(20), 2)
    assert order == training_order(lengths, 8, 2, seed=1)
    assert order[:20] != order[20:]
    assert training_order(lengths, 8, 3, seed=1, max_steps=1) == training_order(lengths, 8, 1, seed=1)[:8]


def test_batches_of_pairs_are_full_and_as_many_whatever_the_processes() -> None:
    lengths = [1 + i % 7 for i in range(21)]
    config = PreferenceConfig(batch_size=8, micro_batch_size=4, seed=1)
    batches = config.batches(lengths)
    assert [len(batch) for batch in batches] == [8, 8, 8]  # the nearest to one pass
    assert config.model_copy(update={"processes": 2}).batches(lengths) == batches
    with pytest.raises(InputError, match="batch_size=8 is more than the 3 examples that there are"):
        config.batches(lengths[:3])
