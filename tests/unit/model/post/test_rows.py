"""Rows of conversations: what they hold, what counts in them, and in which order they come."""

from collections import Counter

import numpy as np
import pytest

from argosy.corpus.tokens.windows import IGNORED
from argosy.model.post.sft import Rows, Sample

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
        ordered = np.concatenate([parts[index] for index in (1, 3, 2, 0)])
        assert (ordered == getattr(whole, name)).all()
    assert (other.batch(range(30, 38)).inputs != whole.inputs).any()
    assert not set(whole.documents[0].tolist()) & set(whole.documents[1:].flatten().tolist())


def test_rows_after_the_limit_are_empty() -> None:
    rows = Rows(SAMPLES, LENGTH, 5)
    rows.limit = 3
    batch = rows.batch(range(2, 5))
    assert ((batch.targets != IGNORED).sum(axis=1) > 0).tolist() == [True, False, False]


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


def test_a_batch_without_packing_is_as_long_as_its_longest_row() -> None:
    rows = Rows([sample(0, 9, 2), sample(1, 5, 2)], LENGTH, 0, packing=False)
    assert rows.batch(range(2)).inputs.shape == (2, 8)
    assert {rows.batch(range(k, k + 1)).inputs.shape for k in range(2)} == {(1, 8), (1, 4)}


def test_a_long_text_fills_several_rows_and_all_of_its_tokens_are_learnt() -> None:
    text = Sample(np.arange(50, dtype=np.int32), np.ones(50, np.bool_), "text")
    rows = Rows([text, sample(1, 9, 2)], LENGTH, 0)
    targets = [token for row in range(len(rows)) for token in rows.batch(range(row, row + 1)).targets[0].tolist()
               if token != IGNORED and token < 100]
    assert sorted(targets) == list(range(1, 50))
