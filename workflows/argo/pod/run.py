"""The run of a batch: the local runner on its nodes, with progress and an exit code that tells whether to retry."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from argosy.core.errors import ArgosyError, InputError
from argosy.core.step.ranks.launcher import EXTERNAL, end_groups
from argosy.core.store.files import read_record
from argosy.core.store.step_files import ERROR, LOG, PROGRESS, rank_log, read_done
from workflows.argo.attempts import AVOID, FAILED, RETRY, earlier_attempts, exit_code
from workflows.argo.handoff import FOLDER, read_handoff, write_output
from workflows.argo.objectstore.pods import running
from workflows.argo.profile.pods import avoided, not_on
from workflows.argo.profile.profile import Profile
from workflows.budget import Meter
from workflows.local.runner import run_plan
from workflows.local.scheduler import Budget
from workflows.local.shipping import Sender, pipeline_environment
from workflows.local.view import NodeResult, RunObserver, share
from workflows.plan import Plan, PlannedNode

SEND_AFTER_S = 5.0


class Echo(RunObserver):
    """An observer that copies the running nodes' output to stdout."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def on_start(self, node: PlannedNode) -> None:
        """Copy from now on; the output of earlier attempts is in the store."""
        for log in _logs(node):
            self._read.setdefault(log, log.stat().st_size if log.exists() else 0)

    def on_tick(self) -> None:
        for log, start in self._read.items():
            with contextlib.suppress(FileNotFoundError), open(log, "rb") as file:
                file.seek(start)
                text = file.read()
                self._read[log] = start + len(text)
                sys.stdout.write(text.decode(errors="replace"))
        sys.stdout.flush()

    def on_finish(self, result: NodeResult) -> None:
        self.on_tick()
        for log in _logs(result.node):
            self._read.pop(log, None)


def _logs(node: PlannedNode) -> list[Path]:
    """List the logs of a node: its own, and those of its ranks where it has several processes."""
    several = node.resources.nodes > 1  # pods of their own
    ranks = range(1 if several else node.resources.processes if node.resources.processes > 1 else 0)
    return [Path(node.dir, name) for name in (LOG, *map(rank_log, ranks))]


class ArgoProgress(RunObserver):
    """An observer that tells Argo the share of the pod that is done, in per cent."""

    def __init__(self, nodes: int) -> None:
        self._nodes, self._done = nodes, 0
        self._running: PlannedNode | None = None
        self._file = Path(os.environ.get("ARGO_PROGRESS_FILE") or os.devnull)

    def on_start(self, node: PlannedNode) -> None:
        self._running = node

    def on_finish(self, result: NodeResult) -> None:
        self._running, self._done = None, self._done + 1
        self.on_tick()

    def on_tick(self) -> None:
        record = read_record(f"{self._running.dir}/{PROGRESS}") if self._running else {}
        percent = int(100 * (self._done + (share(record) or 0.0)) / self._nodes)
        with contextlib.suppress(OSError):
            self._file.write_text(f"{percent}/100", encoding="utf-8")


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    """Run; return 0; 1 failed for good; 2 wrong input; 75 and 137 for another attempt; 143 stopped."""
    path = Path(profile.storage.root) / FOLDER / arguments.workflow / "plan.json"
    with running(profile, arguments.workflow, arguments.batch) as observers, avoiding(profile, arguments.outputs):
        handoff = read_handoff(path)
        earlier = earlier_attempts(path, arguments.batch, profile.retry)
        if earlier.lack_memory:
            return RETRY
        nodes = handoff.of(arguments.batch)
        spent = Meter(handoff.budget, handoff.gpu_hour_price, handoff.directories, nodes)
        if nodes[0].resources.nodes > 1:
            os.environ[EXTERNAL] = str(nodes[0].resources.all_gpus or 0)
            nodes = [node.model_copy(update={"resources": replace(node.resources, cores=1, gpus=0)}) for node in nodes]
        # What they depend on was done before this task.
        alone = Plan(store=handoff.store, stages=tuple(dict.fromkeys(node.name for node in nodes)),
                     nodes=tuple(node.model_copy(update={"upstream": ()}) for node in nodes))
        # Nodes that other pods of the workflow have finished, as far as they are here; parts are too many.
        others = (Path(node["dir"]) for node in handoff.nodes.values() if not node["part"])
        done = [directory for directory in others if read_done(directory)]
        budget = Budget(nodes[0].resources.cores, max(node.resources.memory_gb for node in nodes))
        who = (handoff.person, arguments.workflow, handoff.namespace)
        with sending(nodes, *handoff.pipeline_of(arguments.batch), *who, earlier=done) as sender:
            result = run_plan(alone, budget=budget, plain=True, spent=spent,
                              observers=[sender, Echo(), ArgoProgress(len(nodes)), *observers])  # fmt: skip
        code = exit_code(result, earlier, profile.retry, path, arguments.batch)
        directory = Path(nodes[0].dir)
        final = code in (FAILED, InputError.exit_code)
        if nodes[0].resources.nodes > 1 and (final or (code == RETRY and read_record(directory / ERROR).get("nodes"))):
            end_groups(directory, again=not final)
        return code


@contextlib.contextmanager
def avoiding(profile: Profile, outputs: Path) -> Iterator[None]:
    """Tell Argo, before and after, which nodes pods that are made later are not to be on."""
    def tell() -> None:
        try:
            write_output(outputs, AVOID, json.dumps(not_on(avoided(profile, Path(profile.storage.root)))))
        except (ArgosyError, OSError) as error:  # then what was there holds
            print(f"bad_nodes: {error}", flush=True)

    tell()
    try:
        yield
    finally:
        tell()


@contextlib.contextmanager
def sending(nodes: Sequence[PlannedNode], pipeline: str, line: str, *who: str, earlier: Sequence[Path] = ()
            ) -> Iterator[Sender]:
    """Send to MLflow what `nodes` log inside, as part of a pipeline run of a line, and what `earlier` ones did.

    `who`: person, workflow and namespace that they are for."""
    os.environ |= pipeline_environment(pipeline, line, *who)
    for node in nodes:
        Path(node.dir).mkdir(parents=True, exist_ok=True)
    sender = Sender(Path(nodes[0].dir).parent, [*(node.dir for node in nodes), *earlier], SEND_AFTER_S)
    try:
        yield sender
    finally:
        sender.close()
