"""Groups that train apart and meet (engine local): against a plain loop of torch, over processes, after a kill."""

import copy
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

from argosy.core.store.step_files import rank_log
from argosy.corpus.data.split import derive_seed
from argosy.corpus.tokens.mixture import Mixture
from argosy.corpus.tokens.reader import read_channels
from argosy.model.train.optim import learning_rate
from argosy.model.train.phase import lengthen
from steps.long_context import LongContextConfig
from tests.end_to_end.model.train.test_processes import STEPS, given, like_whole, metrics, start, whole  # noqa: F401
from tests.processes import until

GROUPS, AFTER, EVERY, RATE, MOMENTUM = 2, 1, 3, 0.6, 0.8
FIELDS: dict[str, Any] = {"processes": GROUPS, "weight_decay": 0.1, "engine": {
    "name": "local", "groups": GROUPS, "after": AFTER, "every": EVERY, "rate": RATE, "momentum": MOMENTUM}}  # fmt: skip

LONG: dict[str, Any] = {**FIELDS, "save_every": 2, "check_every": 3, "tokens": 60 * 256, "exports": [1.0]}


def exported(out: Path) -> Any:
    final = json.loads((out / "outputs.json").read_text())["outputs"]["final"]
    return AutoModelForCausalLM.from_pretrained(out / "checkpoints" / final if "/" not in final else out / final)


def test_rounds_are_those_of_a_plain_loop(given: Path) -> None:  # noqa: F811
    """Eight steps are one together and rounds of 3, 3 and 1; algorithm 1 of Douillard et al. (2023)."""
    config = LongContextConfig.model_validate({**STEPS["long_context"][1], **FIELDS})
    mixture = Mixture(read_channels(given, "train"), {"en": 2, "zh": 1}, 20, derive_seed("sampling", 0, "long_context"))
    met = lengthen(exported(whole(given, "short")), config.sequence_length, config.rope_theta)
    momentum = {name: torch.zeros_like(each) for name, each in met.named_parameters()}
    groups = [copy.deepcopy(met) for _ in range(GROUPS)]
    inner = [torch.optim.AdamW([{"params": [each for each in model.parameters() if (each.ndim == 2 and each is not (
        model.get_input_embeddings().weight)) == decays], "weight_decay": 0.1 * decays} for decays in (True, False)],
        betas=(0.9, 0.95), eps=1e-8) for model in groups]  # fmt: skip
    share = config.global_batch_size // GROUPS
    for step in range(config.steps):
        for number, (model, optimizer) in enumerate(zip(groups, inner, strict=True)):
            first = step * config.global_batch_size + (number * share if step >= AFTER else 0)
            batch = mixture.batch(range(first, first + (share if step >= AFTER else config.global_batch_size)))
            documents = torch.from_numpy(batch.documents)
            allowed = (documents[:, :, None] == documents[:, None, :]).tril()
            logits = model(torch.from_numpy(batch.inputs), attention_mask=allowed[:, None], use_cache=False).logits
            optimizer.zero_grad()
            F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(batch.targets).flatten()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
            for each in optimizer.param_groups:
                each["lr"] = learning_rate(config, step)
            optimizer.step()
        own = [dict(model.named_parameters()) for model in groups]
        with torch.no_grad():
            if step < AFTER:
                met.load_state_dict(groups[0].state_dict())
            elif (step + 1 - AFTER) % EVERY == 0 or step + 1 == config.steps:
                for name, each in met.named_parameters():
                    moved = each - sum(found[name] for found in own) / GROUPS
                    momentum[name] = MOMENTUM * momentum[name] + moved
                    each -= RATE * (moved + MOMENTUM * momentum[name])
                    for found in own:
                        found[name].copy_(each)
    ours = dict(exported(whole(given, "long_context", **FIELDS)).named_parameters())
    for name, each in met.named_parameters():
        torch.testing.assert_close(ours[name], each, rtol=1e-4, atol=3e-5)  # a step of Adam is 1e-2


@pytest.mark.parametrize(("name", "more"), [("long_context", {}), ("sft", {"batch_size": 8})])
def test_a_group_of_two_processes_equals_one(given: Path, name: str, more: dict[str, Any]) -> None:  # noqa: F811
    two, four = (metrics(whole(given, name, **{**FIELDS, **more, "processes": count})) for count in (2, 4))
    assert four == {key: pytest.approx(value, rel=1e-3 if "grad_norm" in key[0] else 1e-5)
                    for key, value in two.items()}  # fmt: skip


def test_killed_in_a_round_and_started_again_is_the_same(given: Path, tmp_path: Path) -> None:  # noqa: F811
    out = tmp_path / "killed"
    process = start(given, "pretrain", out, **LONG)
    until(lambda: (out / "state/step-00000010/complete").exists(), 120)  # the end of a round; no state is within one
    process.kill()
    process.end(-signal.SIGKILL)
    start(given, "pretrain", out, **LONG).end()
    assert re.search(r"continuing after step \d+", (out / rank_log(0)).read_text())
    like_whole(out, given, "pretrain", **LONG)
