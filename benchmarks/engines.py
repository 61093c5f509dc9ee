"""Does every engine, and every division of a model, train as one process does?

`argosy run` pretrains a small model once for each, in float32, on the same samples. What is compared is every loss and
every gradient's norm that the runs log.

    python -m benchmarks.engines [--steps 24] [--only NAME ...]

The last line is JSON: by name the largest relative difference of a loss (`loss`) and of a gradient's norm (`grad_norm`)
from one process; `worst` over all. What cannot run here (NVMe without libaio) is named under `left_out`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import ROOT

COMMON = ("stages=[clean,tokenizer,tokenize,pretrain]", "pretrain.global_batch_size=8", "pretrain.micro_batch_size=2",
          "pretrain.model.num_hidden_layers=4", "pretrain.model.num_key_value_heads=2", "pretrain.learning_rate=1e-3",
          "pretrain.warmup_tokens=4096", "pretrain.save_every=1000", "pretrain.log_every=4")
EXPERTS = ("pretrain.model.model_type=qwen3_moe", "pretrain.model.experts.count=4",
           "pretrain.model.experts.per_token=2")
ENGINES: dict[str, str] = {
    "torch": "processes=2", "ddp": "processes=2 engine=ddp", "fsdp": "processes=2 engine=fsdp",
    "fsdp_hybrid": "processes=4 engine=fsdp shard_size=2",
    "zero0": "processes=2 engine=deepspeed", "zero1": "processes=2 zero_stage=1", "zero2": "processes=2 zero_stage=2",
    "zero3": "processes=2 zero_stage=3", "zero2_offload": "processes=2 zero_stage=2 offload=optimizer",
    "zero3_offload": "processes=2 zero_stage=3 offload=all",
    "zero3_nvme": "processes=2 zero_stage=3 offload=all offload_to=nvme nvme_path={scratch}",
    "zero3_hpz": "processes=4 zero_stage=3 zero_partition=2",
    "tp2": "processes=2 tensor_parallel=2", "pp2": "processes=2 pipeline_parallel=2",
    "pp2_interleaved": "processes=2 pipeline_parallel=2 pipeline_interleave=2",
    "sp2": "processes=2 sequence_parallel=2", "tp2_pp2": "processes=4 tensor_parallel=2 pipeline_parallel=2",
    "tp2_fsdp2": "processes=4 tensor_parallel=2 engine=fsdp",
    "sp2_fsdp4": "processes=4 sequence_parallel=2 engine=fsdp",
    "pp2_dp2": "processes=4 pipeline_parallel=2 micro_batch_size=1",
}
OF_EXPERTS: dict[str, str] = {"ep2": "processes=2 expert_parallel=2", "ep2_tp2": (
    "processes=4 expert_parallel=2 tensor_parallel=2")}


def run(fields: str, extra: tuple[str, ...], store: Path, steps: int) -> dict[tuple[str, int], float]:
    """Run the stages; returns what pretraining logged, by name and step. Raises RuntimeError: the run failed."""
    words = [f"pretrain.{each}" for each in fields.format(scratch=store.parent / "nvme").split()]
    command = [sys.executable, "-c", "from workflows.cli import main; raise SystemExit(main())", "run", "--preset",
               "tiny", "--store", str(store), *COMMON,
               f"pretrain.tokens={steps * 8 * 128}", *extra, *words]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:])
    spool = max(store.glob("pretrain-*/tracking/spool.jsonl"), key=lambda path: path.stat().st_mtime)
    records = [json.loads(line) for line in spool.read_text().splitlines()]
    return {(name, record["step"]): value for record in records if record["kind"] == "metrics"
            for name, value in record["values"].items() if name.startswith(("train/", "heldout/"))}


def difference(one: dict[tuple[str, int], float], other: dict[tuple[str, int], float]) -> dict[str, float]:
    """Return the largest relative differences. Raises RuntimeError: not the same was logged."""
    if one.keys() != other.keys():
        raise RuntimeError(f"logged by one of them alone: {sorted(one.keys() ^ other.keys())[:5]}")
    worst = {"loss": 0.0, "grad_norm": 0.0}
    for key, value in one.items():
        kind = "grad_norm" if "grad_norm" in key[0] else "loss"
        worst[kind] = max(worst[kind], abs(other[key] - value) / max(abs(value), 1e-9))
    return worst


def main() -> None:
    """Run all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--only", nargs="*", default=[*ENGINES, *OF_EXPERTS])
    args = parser.parse_args()
    found: dict[str, object] = {}
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "runs"
        (Path(scratch) / "nvme").mkdir()
        for engines, extra in ((ENGINES, ()), (OF_EXPERTS, EXPERTS)):
            chosen = {name: fields for name, fields in engines.items() if name in args.only}
            one = run("processes=1", extra, store, args.steps) if chosen else {}
            for name, fields in chosen.items():
                try:
                    found[name] = difference(one, run(fields, extra, store, args.steps))
                except RuntimeError as error:
                    left_out[name] = str(error).strip()[-600:]
                print(f"{name:16} {found.get(name) or left_out.get(name)}", flush=True)
    worst = {kind: max(each[kind] for each in found.values()) for kind in ("loss", "grad_norm")}  # type: ignore[index]
    print(json.dumps({"worst": worst, "left_out": left_out, **found}))


if __name__ == "__main__":
    main()
