"""`make test-gpu`: every path that a GPU computes in its own way, beside the same step's numbers on the CPU.

    python -m tests.gpu --out DIR [--minutes 10] [--only PATTERN] [--device cpu]

Each path of paths.yaml is a run of a step in a process of its own. What is done stays in DIR, so a run that its minutes
end goes on where it stopped. Where no GPU is at hand, `--device cpu` takes every path on the CPU. The last line is
JSON: of each path whether it passed, the greatest difference, tokens a second on both, MiB, MFU, or what is missing."""

import argparse
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PATHS = Path(__file__).with_name("paths.yaml")
INPUTS = {"pretrain": {"tokenized": "tokens", "tokenizer": "tokens"},
          **{step: {"checkpoint": "model", "data": "data"} for step in ("sft", "reward_model", "preference", "rlhf")}}
LIMIT_S = 600  # of one path
NEEDED = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pydantic", "yaml", "pyarrow", "scipy")
Figures = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), metavar="DIR")
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="begin no path after so many")
    parser.add_argument("--only", default="", metavar="PATTERN", help="the paths whose names it matches")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = parser.parse_args()
    until = time.monotonic() + 60 * args.minutes
    if problem := lacking(args.device):
        print(f"tests.gpu: {problem}", file=sys.stderr)
        return 2
    import yaml

    from argosy.core.store.files import write_json

    listed = yaml.safe_load(PATHS.read_text(encoding="utf-8"))
    names = [name for name in listed["paths"] if re.search(args.only, name)]
    make_inputs(args.out)
    results = args.out / args.device
    for name in names:
        kept = results / f"{name.replace('/', '-')}.json"
        if not kept.exists() and time.monotonic() < until:
            row = take(listed["steps"], name, listed["paths"][name], args.out, args.device)
            write_json(kept, row)
            print(line(row), flush=True)
    rows = [json.loads(kept.read_text()) for name in names
            if (kept := results / f"{name.replace('/', '-')}.json").exists()]
    failed, missing = ([row["path"] for row in rows if row["passed"] is verdict] for verdict in (False, None))
    if left := len(names) - len(rows):
        print(f"{left} paths are left: run it again")
    print(json.dumps({"name": "gpu", "device": args.device, "passed": len(rows) - len(failed) - len(missing),
                      "failed": failed, "missing": missing, "left": left, "paths": rows}))
    return 1 if failed else 0


def lacking(device: str) -> str:
    """Say what this environment lacks for any path; "" where it has all."""
    if missing := [name for name in NEEDED if not importlib.util.find_spec(name)]:
        return f"not installed: {', '.join(missing)}"
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        return "torch sees no GPU: --device cpu takes the paths on the CPU"
    return ""


def make_inputs(out: Path) -> None:
    """Tokens, a model, and data of its post-training, once."""
    if (out / "made").exists():
        return
    from tests import posttraining_fixtures, training_fixtures

    training_fixtures.make_data(out / "tokens", {"en": 400, "code": 300})
    posttraining_fixtures.make_checkpoint(out / "model")
    posttraining_fixtures.make_data(out / "data", 256)
    (out / "made").touch()


def take(steps: Mapping[str, Any], name: str, path: Mapping[str, Any], out: Path, device: str) -> Figures:
    """Run a path, and its numbers on the CPU where no other path had them; return its figures."""
    from argosy.core.tracking.spool import read

    row: Figures = {"path": name, "passed": None, "band": path["band"]}
    if absent := [each for each in path.get("needs", ()) if not importlib.util.find_spec(each)]:
        return {**row, "missing": f"not installed: {', '.join(absent)}"}
    step = steps[path["step"]]
    base = {**step["config"], **path.get("both", {})}
    plain, code, _ = run(path["step"], base, out / "plain", "cpu")
    if code:
        return {**row, "passed": False, "error": f"on the CPU: {plain}"}
    found, code, seconds = run(path["step"], {**base, **path.get("gpu", {})}, out / device, device)
    if code:
        return {**row, "passed": None if code == 2 else False, "missing" if code == 2 else "error": found}
    difference, where = farthest(read(plain), read(found), step["compare"])
    last = {key: series[-1][1] for key, series in read(found).items()}
    speed = {"tokens_per_second": last.get("perf/tokens_per_second"), "mfu": last.get("perf/mfu"),
             "peak_mb": last.get("memory/peak_mb"), "seconds": seconds,
             "tokens_per_second_cpu": read(plain).get("perf/tokens_per_second", [(0, None)])[-1][1]}
    return {**row, "passed": difference <= path["band"], "difference": difference, "where": where, **speed}


def run(step: str, config: Mapping[str, Any], out: Path, device: str) -> tuple[str, int, float]:
    """Run a step where it has not run yet; return its directory, or how it failed, its exit code and its seconds."""
    text = json.dumps({**config, **{field: str(out.parent / place) for field, place in INPUTS[step].items()}})
    directory = out / f"{step}-{zlib.crc32(text.encode()):x}"
    if (directory / "outputs.json").exists():
        return str(directory), 0, 0.0
    began = time.monotonic()
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
    try:
        ended = subprocess.run([sys.executable, "-m", f"steps.{step}", "--config", text, "--out", str(directory)],
                               env={**os.environ, **hidden}, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"it had not ended after {LIMIT_S} s", 1, LIMIT_S
    said = " ".join(ended.stderr.strip().splitlines()[-3:])
    return str(directory) if not ended.returncode else said, ended.returncode, time.monotonic() - began


def farthest(plain: Mapping[str, list[tuple[int, float]]], found: Mapping[str, list[tuple[int, float]]],
             pattern: str) -> tuple[float, str]:
    """Return the greatest difference of a point of the series that match, and where it is; all must be there."""
    names = [name for name in plain if re.fullmatch(pattern, name)]
    if not names:
        return math.inf, "no series"
    gaps = []
    for name in names:
        other = dict(found.get(name, ()))
        for at, value in plain[name]:
            gap = abs(other[at] - value) / max(1.0, abs(value)) if at in other else math.inf
            gaps.append((gap if math.isfinite(gap) else math.inf, f"{name} at {at}"))
    return max(gaps)


def line(row: Figures) -> str:
    """Return what a person reads of a path."""
    if row["passed"] is None:
        return f"-      {row['path']}: {row['missing']}"
    if "error" in row:
        return f"FAILED {row['path']}: {row['error']}"
    speed = f"{row['tokens_per_second'] or 0:,.0f} tokens/s"
    return (f"{'passed' if row['passed'] else 'FAILED'} {row['path']}: {row['difference']:.2g} of {row['band']:g} "
            f"({row['where']}), {speed}, {row['peak_mb'] or 0:,.0f} MiB")


if __name__ == "__main__":
    sys.exit(main())
