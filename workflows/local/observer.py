"""What a run tells whoever looks on: the view in the terminal, the process that ships metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from workflows.plan import Plan, PlannedNode

Status = Literal["ran", "skipped", "failed", "blocked", "stopped"]


@dataclass(frozen=True)
class NodeResult:
    """How one node ended.

    Attributes:
        status: `ran`; `skipped` (done before, or by another run meanwhile); `failed`; `blocked` (something that
            it depends on failed); `stopped` (the run was stopped before it was done).
        code: exit code of a failure; negative: the signal that killed it.
        message: one line for people.
        seconds: of this run.
    """

    node: PlannedNode
    status: Status
    code: int = 0
    message: str = ""
    seconds: float = 0.0


@dataclass
class RunResult:
    """How a run ended; `results` by node id, in order of ending."""

    results: dict[str, NodeResult] = field(default_factory=dict)
    signal: int = 0  # SIGINT or SIGTERM that stopped the run
    seconds: float = 0.0

    def having(self, status: Status) -> list[NodeResult]:
        """The results with this status."""
        return [result for result in self.results.values() if result.status == status]

    @property
    def exit_code(self) -> int:
        """0; 1 if something failed; 2 if that was for wrong input; 128 + signal if it was stopped."""
        if self.signal:
            return 128 + self.signal
        return max((max(result.code, 1) for result in self.having("failed")), default=0)


class RunObserver:
    """Override what is of interest. Called in the runner's main thread: be quick."""

    def on_plan(self, plan: Plan) -> None:
        """The run begins."""

    def on_start(self, node: PlannedNode) -> None:
        """A process begins with `node`."""

    def on_finish(self, result: NodeResult) -> None:
        """A node ended, or will not run."""

    def on_tick(self) -> None:
        """Some time passed (about four times a second)."""

    def on_end(self, result: RunResult) -> None:
        """The run ended, in whatever way."""
