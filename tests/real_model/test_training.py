"""A real model's post-training: each stage gains what it is for, and transformers loads what it exports."""

import os
from pathlib import Path
from typing import Any

import pytest

from steps import rlhf, sft
from tests.real_model.reference import Reference, logits
from tests.step_fixtures import write_lines
from tests.training_fixtures import Recorder, run_here

pytestmark = pytest.mark.real_model
CORES = len(os.sched_getaffinity(0))
SHORT: dict[str, Any] = {"dtype": "float32", "threads": CORES, "max_length": 256, "log_every": 1, "save_every": 100,
                         "lora": {"rank": 8}, "warmup_ratio": 0.0}
QUESTION = "Convert 45 kilometers to meters."
THINGS = ("a color", "an animal", "a fruit", "a river", "a tree", "a planet", "a metal", "a bird", "a sport", "a city",
          "a language", "a month", "a flower", "a fish", "a tool", "a number")  # four of them are held out


def train(step: Any, out: Path, log: Recorder | None = None, **fields: Any) -> tuple[Path, dict[str, float]]:
    """Run a step briefly; the directory of its checkpoint, and its held-out results."""
    outputs = run_here(step, out, log or Recorder(), **SHORT | fields)
    return out / outputs.final, outputs.metrics


def test_sft_lowers_the_loss_and_its_exports_agree(started: Path, data: Path, theirs: Reference,
                                                   tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    final, metrics = train(sft, tmp_path, checkpoint=started, data=data, max_steps=8, batch_size=2, micro_batch_size=1,
                           learning_rate=1e-3, heldout_limit=16, max_new_tokens=4)
    assert metrics["heldout/instruction_loss/after"] < 0.9 * metrics["heldout/instruction_loss/before"]
    ids = theirs.ids(theirs.turn(QUESTION))
    merged = logits(AutoModelForCausalLM.from_pretrained(final, dtype="float32").eval(), ids)
    base = AutoModelForCausalLM.from_pretrained(started / "checkpoints/final", dtype="float32").eval()
    adapted = logits(PeftModel.from_pretrained(base, str(final / "adapter")).eval(), ids)
    assert (merged - theirs.logits(ids)).abs().max() > 0.5
    assert (merged - adapted).abs().max() < 1e-3


def test_grpo_raises_the_reward(started: Path, tmp_path: Path) -> None:
    """Of a rule, an answer of a few tokens: higher on the second pass over the same questions than on the first."""
    (tmp_path / "data").mkdir()
    questions = [{"prompt": [{"role": "user", "content": f"Name {thing}."}], "lang": "en"} for thing in THINGS]
    write_lines(tmp_path / "data/prompts.jsonl", questions)
    log = Recorder()
    train(rlhf, tmp_path, log, checkpoint=started, data=tmp_path / "data", method="grpo", max_steps=8, batch_size=24,
          micro_batch_size=8, group={"size": 8}, max_new_tokens=16, learning_rate=1e-3, schedule="constant",
          kl_coef=0.0, rewards={"length": {"most": 4, "soft": 12}}, heldout_limit=4)
    rewards = [log.logged["rlhf/reward", step] for step in range(1, 9)]
    assert sum(rewards[4:]) / 4 > sum(rewards[:4]) / 4 + 0.05
