"""Watch over training (python -m benchmarks.watch): planted trouble, and clean runs, of small models on real text.

`latest`: steps until the last of the planted troubles was found; `worst`: largest relative distance of a final held-out
loss from that of the run without trouble; `false_alarms`: of clean runs, two of which have noisy channels (JSON and
tables as they lie on the disk); `replayed`: each run with trouble ends in the same bytes again. The last line is JSON.
"""

import contextlib
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import yaml

from argosy.core.step.runner import Item, run_item
from argosy.core.store.files import read_record
from argosy.core.store.step_files import WATCH, read_outputs
from argosy.corpus.tokens.shards import TokensWriter
from argosy.corpus.tokens.windows import IGNORED
from benchmarks.side_by_side import needed
from steps import preference, pretrain, sft

BATCH, LENGTH = 8, 64  # samples of a step, tokens of one
CLEAN_STEPS = 1000
AT, STEPS = 250, 400  # the batch from which on there is trouble, of a run of so many
RUNS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("runs.yaml").read_text(encoding="utf-8"))
STEPS_OF = {"pretrain": pretrain, "sft": sft, "preference": preference}


def main() -> None:
    """Run, print."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write_data(root)
        alarms = [len(told(run(root, name, STEPS_OF[step], fields, CLEAN_STEPS)))
                  for name, (step, fields) in RUNS["clean"].items()]
        found = [compared(root, name, STEPS_OF[step], policy) for name, (step, policy) in RUNS["trouble"].items()]
    print(json.dumps({
        "name": "watch", "unit": "share", "clean_runs": len(alarms), "false_alarms": sum(alarms), "planted": len(found),
        "latest": max(each["late"] for each in found), "worst": max(each["distance"] for each in found),
        "replayed": all(each["replayed"] for each in found)}))  # fmt: skip


def compared(root: Path, name: str, step: Any, policy: Mapping[str, str]) -> dict[str, Any]:
    """Return how late planted trouble was found, how far the run ends from one without, and whether it does so again.
    """
    out, again = (run(root, each, step, {"watch": policy}, STEPS, name) for each in (name, f"{name}-again"))
    plain, made = run(root, f"{step.STEP.name}-plain", step, {}, STEPS), told(out)
    first, second = ([read_record(each / WATCH), *(path.read_bytes() for path in sorted(each.glob(
        "checkpoints/*/*.safetensors")))] for each in (out, again))  # fmt: skip
    found = {"late": made[0]["step"] - AT - 1 if made else STEPS, "replayed": first == second,
             "distance": round(abs(loss(out) / loss(plain) - 1), 5)}  # fmt: skip
    print(f"    {found}", flush=True)
    return found


def run(root: Path, name: str, step: Any, fields: Mapping[str, Any], steps: int, trouble: str = "") -> Path:
    """Return the directory of a run, which is done; post-training goes on from the first clean one."""
    given = {**RUNS["pretrain"], "tokenized": str(root / "tokens"), "tokenizer": str(root / "trained"),
             "tokens": steps * BATCH * LENGTH}  # fmt: skip
    if step is not pretrain:
        given = {**RUNS["tuning"], "checkpoint": str(root / "base"), "data": str(root / "data"), "max_steps": steps}
        given |= {"max_new_tokens": 1} if step is sft else {}
    with planted(trouble), contextlib.redirect_stdout(None):
        outcome = run_item(step.STEP, Item(step.STEP.config.model_validate({**given, **fields}), root / name))
    if outcome.code:
        raise SystemExit(f"{name}: {outcome.message}")
    return root / name


def told(out: Path) -> list[dict[str, Any]]:
    """Print the decisions of a run; returns them."""
    made: list[dict[str, Any]] = read_record(out / WATCH).get("decisions", [])
    print(f"{out.name}: held-out loss {loss(out):.4f}", *(each["said"] for each in made), sep="\n    ", flush=True)
    return made


def loss(out: Path) -> float:
    """Return the final held-out loss of a step in nats, the mean over the channels that it was trained on."""
    found = read_outputs(out)
    return fmean([found["heldout"][name]["nats"] for name in found["epochs"]] if "heldout" in found else [
        value for name, value in found["metrics"].items() if name.endswith("loss/after")])  # fmt: skip


@contextlib.contextmanager
def planted(trouble: str) -> Iterator[None]:
    """Plant trouble: in the data from batch AT on, or in the learning rate of the steps from AT on."""
    from argosy.corpus.tokens.mixture import Mixture
    from argosy.model.post.sft import Rows
    from argosy.model.train import optim, updates
    from argosy.model.train.engines.base import Engine

    kind: Any = Rows if trouble == "labels" else Mixture
    read, train, rate, last = kind.batch, Engine.train_step, optim.learning_rate, [0]

    def batch(self: Any, positions: range) -> Any:
        last[0] = positions.start // BATCH - AT
        if trouble == "repeated" and 0 <= last[0] < 20:
            positions = range(positions.start - BATCH * last[0], positions.stop - BATCH * last[0])
        found, noise = read(self, positions), np.random.default_rng(positions.start)
        scored = found.targets != IGNORED
        if trouble == "corrupt" and 0 <= last[0] < 4:  # half of the samples are noise
            found.inputs[::2], found.targets[::2] = noise.integers(10, 1000, (2, *found.inputs[::2].shape))
        elif trouble == "labels" and 0 <= last[0] < 10:  # answers of other questions, word by word
            found.targets[scored] = noise.permutation(found.targets[scored])
        return found

    def step(self: Any, given: Any, rate: float) -> Any:
        found = train(self, given, rate)
        factor = float("nan") if trouble == "nan" and not last[0] else 1.0
        for each in self.module.parameters():
            each.data *= factor
        return found[0] * factor, *found[1:]

    def spiked(config: Any, step: int) -> float:
        return rate(config, step) * (int(trouble[5:]) if trouble[:5] == "rate_" and AT <= step < AT + 3 else 1)

    with patch.object(kind, "batch", batch), patch.object(Engine, "train_step", step), patch.object(
            updates, "learning_rate", spiked):  # fmt: skip
        yield


def write_data(root: Path) -> None:
    """Write a tokenizer, tokens by channel, and the files of a data step, in which the worse answer of a pair is that
    to another question."""
    from argosy.corpus.tokens.tokenizer import save_tokenizer, train_tokenizer
    from argosy.model.weights.pretrained import load_tokenizer

    texts = {name: pieces(*pattern.split("/")) for name, pattern in RUNS["channels"].items()}
    folder = needed("llms_from_scratch")
    rows = json.loads((folder / "ch07__01_main-chapter-code__instruction-data.json").read_text(encoding="utf-8"))
    every = [piece for some in texts.values() for piece in some[::4]] + [row["output"] for row in rows]
    save_tokenizer(train_tokenizer(every, 1024, split_han=False), root / "trained/tokenizer")
    tokenizer = load_tokenizer(root / "trained/tokenizer")
    with TokensWriter(root / "tokens", len(tokenizer)) as writer:
        for channel, some in texts.items():
            writer.open(channel)
            for number, piece in enumerate(some):
                ids = tokenizer(piece, add_special_tokens=False)["input_ids"]
                writer.add(channel, "train" if number % 10 else "heldout",
                           [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id], len(piece.encode()))  # fmt: skip
    (root / "data").mkdir()
    turns = [[[{"role": "user", "content": f"{row['instruction']}\n{row['input']}".strip()}],
              [{"role": "assistant", "content": row["output"]}]] for row in rows]  # fmt: skip
    for name, chosen in (("", turns[100:]), ("_heldout", turns[:100])):
        pairs = [{"prompt": asked, "chosen": good, "rejected": bad}
                 for (asked, good), (_, bad) in zip(chosen, chosen[-1:] + chosen[:-1], strict=True)]  # fmt: skip
        lines = {"instructions": [{"messages": asked + good} for asked, good in chosen], "preferences": pairs}
        for kind, records in lines.items():
            (root / "data" / f"{kind}{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))


def pieces(folder: str, pattern: str) -> list[str]:
    """Return the files' text in pieces of different sizes, in a random order."""
    drawn, found = Random(folder), []
    for path in sorted(needed(folder).glob(pattern)):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text, at = data.decode(errors="replace")[:400_000], 0
        while at < len(text):
            size = drawn.randrange(100, 900)
            found.append(text[at : at + size])
            at += size
    drawn.shuffle(found)
    return found[:4000]


if __name__ == "__main__":
    main()
