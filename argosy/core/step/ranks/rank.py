"""One rank of a step: `python -m steps.NAME` with ARGOSY_RANKS. It writes its own log, and what the step shards."""

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from argosy.core.errors import ArgosyError, InputError, StepError
from argosy.core.nodes.check import preflight
from argosy.core.step import process, ranks
from argosy.core.step.contract import Progress, Step, StepContext, Watched
from argosy.core.step.process import computed_with, failure, output_to
from argosy.core.step.ranks import TASK, file_of, group_of
from argosy.core.store.files import read_json, use_reserve, write_json
from argosy.core.store.lease import Lease, LeaseLost
from argosy.core.store.step_files import PROGRESS, TRACKING, rank_log
from argosy.core.tracking.tracker import Tracker


def refuse_foreign_launcher() -> None:
    """Make sure that no other launcher started this process as one of several: each would want the step's directory.
    Raises InputError: torchrun or the like did."""
    world = os.environ.get("WORLD_SIZE", "1")
    if world not in ("", "1"):
        raise InputError(f"WORLD_SIZE is {world}: torchrun or the like started this process as one of several, and all "
                         "would write one directory; start it as one process, with processes in its config "
                         f"(--config '{{\"processes\": {world}}}'): it starts its ranks itself")


def run_rank(step: Step[Any], folder: Path) -> int:
    """Run the step as the rank that the environment names; returns the exit code."""
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    task = read_json(folder / TASK)
    out = Path(task["out"])
    with output_to(out / rank_log(rank)), open(file_of(folder, "stack", rank), "w", encoding="utf-8") as stacks:
        faulthandler.register(signal.SIGUSR2, file=stacks)
        lease = Lease(out, token=task["lease"])
        _renew(lease)
        process.when_resumed(lease.check)
        watched = Watched(ranks.hang_timeout(), ranks.rank_timeout())
        several = task["config"].get("nodes", 1) > 1
        threading.Thread(target=_keep_beating, args=(folder, rank, lease, os.getppid(), watched, several),
                         daemon=True).start()
        print(f"{process.timestamp()} rank {rank} of {world}, process {os.getpid()}", flush=True)
        tracker = Tracker(out / TRACKING if rank == 0 else None)
        progress = Progress(out / PROGRESS if rank == 0 else None, watched=watched, cause=task["cause"])
        context = StepContext(out, tracker, progress, rank, world, local)
        end = _ended(step, task, context) | {"peak_rss_mb": process.peak_rss_mb()}
        if end["exit_code"]:
            _write(folder, rank, end, out)  # before a signal may come, as others fail too
        tracker.close()
        if not end["exit_code"]:
            _write(folder, rank, end, out)
    return int(end["exit_code"])


def _ended(step: Step[Any], task: dict[str, Any], context: StepContext) -> dict[str, Any]:
    """Run the step; returns the record of how it ended."""
    try:
        if task["preflight"]:
            preflight(wait=ranks.rank_timeout())
        outputs = step.run(step.config.model_validate(task["config"]), context)
        torch = sys.modules.get("torch.distributed")
        if torch and torch.is_available() and torch.is_initialized():
            torch.destroy_process_group()
        return {"exit_code": 0, "outputs": outputs.model_dump(mode="json"), "computed_with": computed_with()}
    except Exception as error:
        traceback.print_exc()
        return failure(error, context.out)


def _write(folder: Path, rank: int, end: dict[str, Any], out: Path) -> None:
    try:
        write_json(file_of(folder, "end", rank), end, durable=False)
    except (ArgosyError, OSError) as error:  # outputs that are no JSON, such as a NaN; a full disk
        end.clear()
        end |= failure(error, out)
        use_reserve(out)
        write_json(file_of(folder, "end", rank), end, durable=False)


def _keep_beating(folder: Path, rank: int, lease: Lease, parent: int, watched: Watched, several: bool) -> None:
    """Touch the beat for as long as this process lives, and say when a training step hangs; end it where its parent is
    gone, or the step is not its own any more, such as where a frozen node counts as lost."""
    pause, silent = min(1.0, ranks.rank_timeout() / 10), 0.0
    while os.getppid() == parent and silent < 0.7 * ranks.node_timeout():
        silent = silent + pause if several and _age(group_of(folder)) > 3 * pause else 0.0
        with suppress(OSError):  # a store that stalls
            os.utime(file_of(folder, "beat", rank))
            if late := watched.late():
                file_of(folder, "late", rank).write_text(late, encoding="utf-8")
        _renew(lease)
        time.sleep(pause)
    os.kill(os.getpid(), signal.SIGKILL)


def _age(path: Path) -> float:
    with suppress(OSError):  # not yet, or a store that stalls
        return time.time() - path.stat().st_mtime
    return 0.0


def _renew(lease: Lease) -> None:
    try:
        lease.renew()
    except LeaseLost as lost:
        print(lost, flush=True)
        os._exit(lost.exit_code)
    except (OSError, StepError):
        return  # a store that stalls
