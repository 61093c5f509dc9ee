"""Verbatim continuation: against transformers' own generation, and on a model that learnt by heart."""

import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from argosy.core.errors import InputError
from argosy.corpus.tokens.reader import read_channels
from argosy.evidence.results.heldout.losses import Heldout, run_heldout
from argosy.model.infer.model import LanguageModel
from tests.plain_forward import language_model
from tests.tokenizer_kinds import tokenizers_by_kind
from tests.training_fixtures import write_tokens

WORDS = [
    *("river", "长江", "stone", "首都", "Paris", "巴黎", "bridge", "市场"),
    *("old", "水", "market", "山区", "flows", "海", "capital", "日本")]
PREFIX, CONTINUATION = 12, 10


def make_texts(name: str, count: int) -> list[str]:
    rng = Random(name)
    return [" ".join(rng.choices(WORDS, k=22)) for _ in range(count)]


SPLITS = {"train": {"mixed": make_texts("a", 30), "small": make_texts("b", 1)},
          "heldout": {"mixed": make_texts("c", 24), "small": make_texts("d", 4)}}  # fmt: skip
PROBE = {"samples": 20, "prefix": PREFIX, "continuation": CONTINUATION}


def learn(model: LanguageModel, tokens: Path, steps: int) -> None:
    """Train on the beginnings of the channel `mixed`, until it is known by heart."""
    channel = read_channels(tokens, "train")["mixed"]
    length = 1 + PREFIX + CONTINUATION
    begun = [channel.tokens[start : start + length] for start in channel.offsets[:-1]]
    batch = torch.from_numpy(np.stack(begun).astype(np.int64))
    for weights in model.model.parameters():
        weights.data.div_(8 if weights.ndim > 1 else 1)  # back to the scale that models begin with
    optimizer = torch.optim.AdamW(model.model.parameters(), lr=1e-2)
    for _ in range(steps):
        loss = model.model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def matched_by_hand(model: LanguageModel, tokens: list[int]) -> int:
    """Tokens that transformers' greedy generation says as the document has them, up to the first other one."""
    given = torch.tensor([tokens[: 1 + PREFIX]])
    with torch.no_grad():
        said = model.model.generate(given, do_sample=False, min_new_tokens=CONTINUATION, max_new_tokens=CONTINUATION,
                                    eos_token_id=None, pad_token_id=0)[0, 1 + PREFIX :].tolist()  # fmt: skip
    expected = tokens[1 + PREFIX :]
    return next((n for n, (a, b) in enumerate(zip(said, expected, strict=True)) if a != b), CONTINUATION)


def test_each_sample_by_hand(tmp_path: Path) -> None:
    model = language_model(tokenizers_by_kind()["byte_bpe"], 64)
    tokens = write_tokens(tmp_path, model.tokenizer, SPLITS)
    learn(model, tokens, 25)  # half learnt: some continuations match in part
    found = run_heldout(Heldout(memorisation=PROBE), model, str(tokens), suite="s", seed=3)
    rows = [row for row in found.rows if row["variant"] == "memorisation/mixed"]
    assert [row["member"] for row in rows] == [True] * 20 + [False] * 20
    again = run_heldout(Heldout(memorisation=PROBE), model, str(tokens), suite="s", seed=3)
    other = run_heldout(Heldout(memorisation=PROBE), model, str(tokens), suite="s", seed=4)
    assert found.rows == again.rows != other.rows
    channels = {split: read_channels(tokens, split)["mixed"] for split in ("train", "heldout")}
    matched: dict[str, list[float]] = {"train": [], "heldout": []}
    for row in rows:
        split, _, document = row["id"].partition("/")
        start = int(channels[split].offsets[int(document)])
        expected = matched_by_hand(model, channels[split].tokens[start : start + 1 + PREFIX + CONTINUATION].tolist())
        assert row["matched"] == expected
        assert row["exact"] == (expected == CONTINUATION)
        matched[split].append(expected / CONTINUATION)
    assert len({row["matched"] for row in rows}) > 2
    assert found.metrics["memorisation/matched/mixed"] == pytest.approx(np.mean(matched["train"]))
    gap = np.mean(matched["train"]) - np.mean(matched["heldout"])
    assert found.metrics["memorisation/matched_gap/mixed"] == pytest.approx(gap)
    errors = [np.std(values, ddof=1) / 20**0.5 for values in matched.values()]
    assert found.stderr["memorisation/matched_gap/mixed"] == pytest.approx(math.hypot(*errors))
    exact = [[row["exact"] for row in rows if row["member"] is member] for member in (True, False)]
    gap = sum(exact[0]) / 20 - sum(exact[1]) / 20
    assert found.metrics["memorisation/exact_gap/mixed"] == pytest.approx(gap)
    added = [(sum(own) + 1) / 22 for own in exact]
    error = sum(p * (1 - p) / 22 for p in added) ** 0.5
    assert found.stderr["memorisation/exact_gap/mixed"] == pytest.approx(error)  # also where none matches
    for name in ("exact", "matched_gap"):  # one channel alone
        assert found.metrics[f"memorisation/{name}/all"] == found.metrics[f"memorisation/{name}/mixed"]
    assert found.left_out["memorisation/small"] == {"fewer than 2 train documents of 22 tokens": 1}


def test_wrong_channels_and_nan(tmp_path: Path) -> None:
    model = language_model(tokenizers_by_kind()["byte_bpe"], 64)
    tokens = write_tokens(tmp_path, model.tokenizer, SPLITS)
    with pytest.raises(InputError, match=r"memorisation\.channels has 'zh'; allowed: mixed, small"):
        run_heldout(Heldout(memorisation={**PROBE, "channels": ["zh"]}), model, str(tokens), suite="s")
    with pytest.raises(InputError, match=r"prefix \+ continuation is 72 tokens, allowed for this model: up to 64"):
        run_heldout(Heldout(memorisation={**PROBE, "prefix": 62}), model, str(tokens), suite="s")
    alone = write_tokens(tmp_path / "alone", model.tokenizer, {"heldout": SPLITS["heldout"]})
    found = run_heldout(Heldout(memorisation=PROBE), model, str(alone), suite="s")
    assert found.left_out["memorisation"] == {"no channel has both training and held-out text": 1}
    broken = language_model(tokenizers_by_kind()["byte_bpe"], 64)
    broken.model.model.norm.weight.data.fill_(math.nan)
    found = run_heldout(Heldout(memorisation={**PROBE, "channels": ["mixed"]}), broken, str(tokens), suite="s")
    assert found.left_out["memorisation/mixed"] == {"score is not a number": 40}
    assert not found.metrics
