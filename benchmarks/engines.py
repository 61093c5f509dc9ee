"""Does every engine, and every division of a model, train as one process does?

A stage trains a small model once for each, in float32, on the same samples, in processes that are forked from one that
has imported all; its inputs come from one `argosy run`. What is compared is all that it logs.

    python -m benchmarks.engines [--stages pretrain experts sft dpo kto grpo] [--steps 24] [--only NAME ...]

The last line is JSON: by stage and name the largest relative difference of a loss (`loss`), of a gradient's norm
(`grad_norm`) and of all else (`other`: accuracies, margins, rewards, divergences, experts' loads), of 0.01 where a
number is less; `worst` by stage. What cannot run here (NVMe without libaio) is named under `left_out`."""

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from argosy.core.step.contract import Progress, StepContext
from argosy.core.step.machine import free_port
from argosy.core.tracking.spool import OF_THE_RUN
from argosy.core.tracking.tracker import Tracker
from benchmarks.side_by_side import ROOT
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import PlannedNode, plan

Logged = dict[tuple[str, int], float]
_DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
STAGES = _DATA["stages"]
ENGINES, DIVISIONS, OF_EXPERTS = (_DATA[name] for name in ("engines", "divisions", "experts"))
_FLOOR = 0.01


def layouts(stage: str) -> dict[str, str]:
    """Return the layouts of a stage by name, with their fields."""
    more = {"experts": {**DIVISIONS, **OF_EXPERTS}, "pretrain": DIVISIONS, "sft": DIVISIONS}
    found = {**ENGINES, **more.get(stage, {})}
    refused = ("pipeline", "sequence") if stage == "experts" else ()
    return {name: fields for name, fields in found.items() if not any(word in fields for word in refused)}


class Recorder(Tracker):
    def __init__(self) -> None:
        super().__init__(None)
        self.logged: list[tuple[str, int, float]] = []

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Keep them, without those that tell how a run went."""
        self.logged += [(name, step, value) for name, value in values.items() if not name.startswith(OF_THE_RUN)]


def planned(stage: str, fields: str, store: Path, steps: int) -> PlannedNode:
    """Plan a stage with the `fields` of a layout."""
    field, own = STAGES[stage]["field"], " ".join(STAGES[stage]["overrides"])
    long = f"tokens={steps * 8 * 128}" if field == "pretrain" else f"max_steps={steps}"
    words = [f"{field}.{each}" for each in f"{own} {long} {fields.format(scratch=store / 'nvme')}".split()]
    nodes = plan(lifecycle(compose("tiny", overrides=(*_DATA["common"], *words))), store, None, field).nodes
    return next(node for node in nodes if node.name == field)


def run(stage: str, fields: str, store: Path, steps: int) -> Logged:
    """Run a stage in processes of its own; returns what it logged. Raises RuntimeError: it failed."""
    node = planned(stage, fields, store, steps)
    out, world, port = store / f"{stage}-{node.digest}", json.loads(node.config).get("processes", 1), free_port()
    out.mkdir(exist_ok=True)
    forked = multiprocessing.get_context("fork")
    ranks = [forked.Process(target=_rank, args=(node, out, rank, world, port)) for rank in range(world)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    if any(rank.exitcode for rank in ranks):
        raise RuntimeError("\n".join(path.read_text()[-1500:] for path in sorted(out.glob("log-*"))))
    return {(name, step): value for name, step, value in json.loads((out / "logged.json").read_text())}


def _rank(node: PlannedNode, out: Path, rank: int, world: int, port: int) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    step, recorder = importlib.import_module(f"steps.{node.step}").STEP, Recorder()
    with (out / f"log-{rank}").open("w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        try:
            context = StepContext(out, recorder, Progress(None), rank, world, rank)
            step.run(step.config.model_validate_json(node.config), context)
        except BaseException:
            traceback.print_exc()
            log.flush()
            os._exit(1)
    if rank == 0:
        (out / "logged.json").write_text(json.dumps(recorder.logged))
    os._exit(0)  # without the collectives of an interpreter's end


def difference(one: Logged, other: Logged) -> dict[str, float]:
    """Return the largest relative differences. Raises RuntimeError: not the same was logged."""
    if one.keys() != other.keys():
        raise RuntimeError(f"logged by one of them alone: {sorted(one.keys() ^ other.keys())[:5]}")
    worst = {"loss": 0.0, "grad_norm": 0.0, "other": 0.0}
    for (name, step), value in one.items():
        lossy = any(word in name for word in ("loss", "heldout/nats", "heldout/ppl", "heldout/bpb"))
        kind = "grad_norm" if "grad_norm" in name else "loss" if lossy else "other"
        worst[kind] = max(worst[kind], abs(other[name, step] - value) / max(abs(value), _FLOOR))
    return worst


def prepare(store: Path) -> None:
    """Make what the stages start from, and import what they need. Raises CalledProcessError: it failed."""
    command = [sys.executable, "-c", "from workflows.cli import main; raise SystemExit(main())", "run", "--preset",
               "tiny", "--store", str(store), "--to", "sft", *_DATA["common"]]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "MLFLOW_TRACKING_URI": ""}, stdout=subprocess.DEVNULL,
                   check=True)
    (store / "nvme").mkdir(exist_ok=True)
    os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")
    with contextlib.suppress(ImportError):
        importlib.import_module("deepspeed")
    for name in ("argosy.model.train.phase", "argosy.model.post.sft", "argosy.model.post.preferences.learning",
                 "argosy.model.post.rl.learning", "transformers.models.llama.modeling_llama"):
        importlib.import_module(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--stages", nargs="*", default=[*STAGES], choices=[*STAGES])
    parser.add_argument("--store", type=Path, help="keeps what the stages start from, for the next time")
    parser.add_argument("--only", nargs="*", default=[*ENGINES, *DIVISIONS, *OF_EXPERTS])
    args = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        store = args.store or Path(scratch) / "runs"
        prepare(store)
        for stage in args.stages:
            one, found[stage] = run(stage, "processes=1", store, args.steps), {}
            for name, fields in layouts(stage).items():
                if name not in args.only:
                    continue
                try:
                    found[stage][name] = difference(one, run(stage, fields, store, args.steps))
                except RuntimeError as error:
                    left_out[f"{stage} {name}"] = str(error).strip()[-600:]
                shown = found[stage].get(name) or left_out.get(f"{stage} {name}")
                print(f"{stage:8} {name:16} {shown}", flush=True)
    worst = {stage: {kind: max((each[kind] for each in rows.values()), default=0.0) for kind in ("loss", "grad_norm",
                                                                                                "other")}
             for stage, rows in found.items()}
    print(json.dumps({"worst": worst, "left_out": left_out, **found}))


if __name__ == "__main__":
    main()
