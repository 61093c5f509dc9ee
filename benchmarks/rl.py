"""Whether reinforcement learning learns: a task whose reward a program checks, from under 0.3 to over 0.8.

python -m benchmarks.rl

A small model is taught to say a word twice, and not to the end; then each method raises its rate of right answers on
held-out prompts, sampled at temperature 1, from three seeds. The last line is JSON: by method the rates before and
after, the divergence from the start in nats an answer, and the seconds of a run, each as [least, mean, most] of the
seeds."""

import argparse
import json
import random
import time
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from argosy.core.step.contract import Progress, StepContext
from argosy.core.tracking.tracker import Tracker
from argosy.model.train.config.model import ModelConfig
from benchmarks.side_by_side import small_model

METHODS = ("ppo", "grpo", "rloo", "reinforce++")
WORDS = ("red", "blue", "green", "one", "two", "three", "cat", "dog", "bird", "sun", "moon", "star")
SHAPE = ModelConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=4, max_position_embeddings=96)
TAUGHT = {"epochs": 8, "learning_rate": 4e-3, "batch_size": 8, "micro_batch_size": 8, "dtype": "float32"}
LEARNS: dict[str, Any] = {
    "rewards": {"accept": 1.0}, "max_steps": 160, "batch_size": 128, "micro_batch_size": 64, "minibatches": 2,
    "group": {"size": 8}, "max_new_tokens": 12, "learning_rate": 1e-3, "kl_coef": 0.01, "log_every": 10,
    "save_every": 1000, "heldout_limit": 64, "ppo": {"value_learning_rate": 3e-3},
}  # fmt: skip
GROUPED = {"dynamic_sampling": 2}  # of the methods whose baseline is a group
KEYS = {"before": "heldout/reward/sampled/before", "after": "heldout/reward/sampled/after", "kl": "heldout/kl/after"}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.rl", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    args = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as folder:
        root = Path(folder)
        taught = [_taught(root, seed) for seed in range(args.seeds)]
        for method in args.methods:
            runs = []
            for seed, start in enumerate(taught):
                began = time.perf_counter()
                metrics = _run("rlhf", root / f"{method}-{seed}", checkpoint=start, data=root / "data", method=method,
                               seed=seed, **LEARNS, **(GROUPED if method in ("grpo", "rloo") else {}))
                runs.append({name: metrics[key] for name, key in KEYS.items()}
                            | {"seconds": time.perf_counter() - began})
                print(method, seed, {name: round(value, 3) for name, value in runs[-1].items()}, flush=True)
            found[method] = {name: [round(each([run[name] for run in runs]), 3) for each in (min, fmean, max)]
                             for name in runs[0]}
    print(json.dumps({"name": "rl", "seeds": args.seeds, **found}))


def _taught(root: Path, seed: int) -> Path:
    """Make a model, and data if there are none, and teach it a part of the task; returns the directory of that step."""
    if not (root / "data").exists():
        _write_data(root / "data")
    _write_model(root / f"base-{seed}", seed)
    _run("sft", root / f"sft-{seed}", checkpoint=root / f"base-{seed}", data=root / "data", seed=seed, heldout_limit=8,
         max_new_tokens=4, **TAUGHT)
    return root / f"sft-{seed}"


def _run(step: str, out: Path, **fields: Any) -> dict[str, float]:
    """Run a step in this process; returns its held-out metrics."""
    import importlib

    module = importlib.import_module(f"steps.{step}")
    out.mkdir(parents=True)
    given = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
    outputs = module.run(module.STEP.config.model_validate(given), StepContext(out, Tracker(None), Progress(None)))
    (out / "outputs.json").write_text(json.dumps({"outputs": outputs.model_dump(mode="json")}))
    metrics: dict[str, float] = outputs.metrics
    return metrics


def _write_data(directory: Path) -> None:
    directory.mkdir()
    drawn = random.Random(0)
    lines: dict[str, list[dict[str, Any]]] = {"instructions": [], "prompts": []}
    for _ in range(512):
        word = drawn.choice(WORDS)
        user = {"role": "user", "content": f"say {word} twice" + " please" * drawn.randrange(12)}
        answer = {"role": "assistant", "content": f"{word} {word}"}
        lines["instructions"].append({"messages": [user, answer]})
        lines["prompts"].append({"prompt": [user], "accept": [f"{word} {word}"], "format": "text"})
    lines["instructions"] = lines["instructions"][:256]
    for name, rows in (lines | {"instructions_heldout": lines["instructions"][:8]}).items():
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_model(directory: Path, seed: int) -> None:
    """Write the directory of a training step that made a random model of two blocks."""
    final = directory / "checkpoints" / "final"
    final.mkdir(parents=True)
    texts = [f"say {word} twice please {word} {word}" for word in WORDS] * 20
    model, _ = small_model(final, texts, 384, SHAPE, seed, written=True)
    model.save_pretrained(final)
    (final / "argosy.json").write_text(json.dumps({"stage": "anneal", "step": 1, "tokens": 1000, "chat": False}))
    (directory / "outputs.json").write_text(json.dumps({"outputs": {"final": "checkpoints/final"}}))


if __name__ == "__main__":
    main()
