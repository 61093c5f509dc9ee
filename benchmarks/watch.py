"""Watch over training: planted trouble, and clean runs, on real text (python -m benchmarks.watch [--model DIR]).

Small new models, or the one of DIR (a chat model as transformers saves it) in continued pretraining and SFT. `latest`:
steps until the last of the planted troubles was found; `worst`: largest relative distance of a final held-out loss from
that of the run without trouble; `false_alarms`: of clean runs, two of which have noisy channels (JSON and tables as
they lie on the disk); `replayed`: each run with trouble ends in the same bytes again (new models). The end is JSON.
"""

import argparse
import contextlib
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from argosy.corpus.tokens.mixture import Mixture
from argosy.corpus.tokens.shards import TokensWriter
from argosy.corpus.tokens.tokenizer import save_tokenizer, train_tokenizer
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.post.sft import Rows
from argosy.model.weights.pretrained import load_tokenizer
from benchmarks.side_by_side import needed
from steps import preference, pretrain, sft, start

RUNS: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
STEPS_OF = {"pretrain": pretrain, "sft": sft, "preference": preference}


def main() -> None:
    """Run, print."""
    parser = argparse.ArgumentParser("python -m benchmarks.watch", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="directory of a real model, such as SmolLM2-135M-Instruct")
    parser.add_argument("--out", type=Path, help="keep the runs here, where the same command goes on with them")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of watch.yaml, such as corrupt (default: all)")
    parser.add_argument("--tell", action="store_true", help="tell of trouble and do nothing else about it")
    args = parser.parse_args()
    plan = RUNS["real" if args.model else "new"]
    names = [*plan["clean"], *plan["trouble"]]
    if wrong := sorted(set(args.only or ()).difference(names)):
        parser.error(f"--only is {wrong[0]!r}, allowed: {', '.join(names)}")
    with TemporaryDirectory() as folder:
        runs = Runs(args.out or Path(folder), args.model, plan)
        clean, trouble = ({name: run for name, run in runs.plan[kind].items() if not args.only or name in args.only}
                          for kind in ("clean", "trouble"))  # fmt: skip
        runs.write_data()
        alarms = [len(told(runs.run(name, step, fields, runs.plan["clean_steps"])))
                  for name, (step, fields) in clean.items()]
        found = [runs.compared(name, step, {} if args.tell else policy) for name, (step, policy) in trouble.items()]
    print(json.dumps({
        "name": "watch", "unit": "share", "clean_runs": len(alarms), "false_alarms": sum(alarms), "planted": len(found),
        "latest": max((each["late"] for each in found), default=None),
        "worst": max((each["distance"] for each in found), default=None),
        "replayed": None if args.model else all(each["replayed"] for each in found)}))  # fmt: skip


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


@dataclass(frozen=True)
class Runs:
    """Runs below `root` of a real model (its directory), or of new ones, by a plan of watch.yaml."""

    root: Path
    model: str
    plan: Mapping[str, Any]

    def compared(self, name: str, step: str, policy: Mapping[str, str]) -> dict[str, Any]:
        """Return how late planted trouble was found, how far the run ends from one without, and whether it does so
        again."""
        at, steps = self.plan["at"], self.plan["steps"]
        outs = [self.run(each, step, {"watch": policy}, steps, name) for each in (name, f"{name}-again")[
            : 1 if self.model else 2]]  # fmt: skip
        plain, made = self.run(f"{step}-plain", step, {}, steps), told(outs[0])
        bytes_of = [[read_record(out / WATCH), *(path.read_bytes() for path in sorted(out.glob(
            "checkpoints/*/*.safetensors")))] for out in outs]  # fmt: skip
        found = {"late": made[0]["step"] - at - 1 if made else steps, "replayed": bytes_of[0] == bytes_of[-1],
                 "distance": round(abs(loss(outs[0]) / loss(plain) - 1), 5)}  # fmt: skip
        print(f"    {found}", flush=True)
        return found

    def run(self, name: str, step: str, fields: Mapping[str, Any], steps: int, trouble: str = "") -> Path:
        """Return the directory of a finished run; post-training of new models goes on from the first clean one."""
        out, batch = self.root / name, self.plan["batch"]
        base = str(self.root / ("start" if self.model else "base"))
        given = {**self.plan["pretrain"], "tokenized": str(self.root / "tokens"), "global_batch_size": batch}
        given |= {"tokens": steps * batch * given["sequence_length"]}
        given |= {"checkpoint": base} if self.model else {"tokenizer": str(self.root / "trained")}
        if step != "pretrain":
            _ = self.model or self.run("base", "pretrain", {}, self.plan["clean_steps"])
            given = {**self.plan["tuning"], "checkpoint": base, "data": str(self.root / "data"), "max_steps": steps}
            given |= {"max_new_tokens": 1, "batch_size": batch} if step == "sft" else {}
        with planted(trouble, Rows if step == "sft" else Mixture, self.plan), contextlib.redirect_stdout(None):
            done(STEPS_OF[step], {**given, **fields}, out)
        return out

    def write_data(self) -> None:
        """Write the model or a new tokenizer, tokens by channel, and the files of a data step, in which the worse
        answer of a pair is that to another question."""
        folder = needed("llms_from_scratch")
        texts = {name: pieces(RUNS["channels"][name], self.plan["piece"]) for name in self.plan["channels"]}
        rows = json.loads((folder / "ch07__01_main-chapter-code__instruction-data.json").read_text(encoding="utf-8"))
        if self.model:
            done(start, {"model": self.model}, self.root / "start")
        elif not (self.root / "trained").exists():
            every = [piece for some in texts.values() for piece in some[::4]] + [row["output"] for row in rows]
            save_tokenizer(train_tokenizer(every, 1024, split_han=False), self.root / "trained/tokenizer")
        tokenizer = load_tokenizer(self.root / ("start" if self.model else "trained") / "tokenizer")
        if not (self.root / "tokens").exists():
            write_tokens(self.root / "tokens", tokenizer, texts)
        (self.root / "data").mkdir(exist_ok=True)
        turns = [[[{"role": "user", "content": f"{row['instruction']}\n{row['input']}".strip()}],
                  [{"role": "assistant", "content": row["output"]}]] for row in rows]  # fmt: skip
        for name, chosen in (("", turns[100:]), ("_heldout", turns[:100])):
            pairs = [{"prompt": asked, "chosen": good, "rejected": bad}
                     for (asked, good), (_, bad) in zip(chosen, chosen[-1:] + chosen[:-1], strict=True)]  # fmt: skip
            lines = {"instructions": [{"messages": asked + good} for asked, good in chosen], "preferences": pairs}
            for kind, records in lines.items():
                (self.root / "data" / f"{kind}{name}.jsonl").write_text(
                    "".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")  # fmt: skip


def write_tokens(out: Path, tokenizer: Any, texts: Mapping[str, Sequence[str]]) -> None:
    """Write documents by channel as a tokenize step does; each tenth is held out."""
    with TokensWriter(out, len(tokenizer)) as writer:
        for channel, some in texts.items():
            writer.open(channel)
            for number, piece in enumerate(some):
                ids = tokenizer(piece, add_special_tokens=False)["input_ids"]
                writer.add(channel, "train" if number % 10 else "heldout",
                           [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id], len(piece.encode()))  # fmt: skip


def done(step: Any, config: Mapping[str, Any], out: Path) -> None:
    """Run a step, or what is left of it. Raises SystemExit: it failed."""
    outcome = run_item(step.STEP, Item(step.STEP.config.model_validate(config), out))
    if outcome.code:
        raise SystemExit(f"{out.name}: {outcome.message}")


@contextlib.contextmanager
def planted(name: str, kind: Any, plan: Mapping[str, Any]) -> Iterator[None]:
    """Plant the trouble of a name: in the data, which `kind` reads, from a batch on, or in the rates from there on."""
    from argosy.model.train import optim, updates
    from argosy.model.train.engines.base import Engine

    read, train, rate, last = kind.batch, Engine.train_step, optim.learning_rate, [0]
    trouble, factor = [*name.split("_"), ""][:2]
    at, size = plan["at"], plan["batch"]

    def batch(self: Any, positions: range) -> Any:
        last[0] = positions.start // size - at
        if trouble == "repeated" and 0 <= last[0] < 20:
            positions = range(positions.start - size * last[0], positions.stop - size * last[0])
        found, noise = read(self, positions), np.random.default_rng(positions.start)
        scored = found.targets != IGNORED
        if trouble == "corrupt" and 0 <= last[0] < 4:  # half of the samples are noise
            found.inputs[::2], found.targets[::2] = noise.integers(10, 1000, (2, *found.inputs[::2].shape))
        elif trouble == "labels" and 0 <= last[0] < 10:  # answers of other questions, word by word
            found.targets[scored] = noise.permutation(found.targets[scored])
        return found

    def step(self: Any, given: Any, rate: float) -> Any:
        found = train(self, given, rate)
        broken = float("nan") if trouble == "nan" and not last[0] else 1.0
        for each in self.module.parameters():
            each.data *= broken
        return found[0] * broken, *found[1:]

    def spiked(config: Any, step: int) -> float:
        return rate(config, step) * (int(factor) if trouble == "rate" and at <= step < at + 3 else 1)

    with patch.object(kind, "batch", batch), patch.object(Engine, "train_step", step), patch.object(
            updates, "learning_rate", spiked):  # fmt: skip
        yield


def pieces(where: str, most: int) -> list[str]:
    """Return the files' text in pieces of different sizes, of `most` characters at most, in a random order."""
    folder, pattern = where.split("/")
    drawn, found = Random(folder), []
    for path in sorted(needed(folder).glob(pattern)):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text, at = data.decode(errors="replace")[:400_000], 0
        while at < len(text):
            size = drawn.randrange(100, most)
            found.append(text[at : at + size])
            at += size
    drawn.shuffle(found)
    return found[:4000]


if __name__ == "__main__":
    main()
