"""The table of samples: the best and the worst answers of rollouts, with their rewards, for people to read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from argosy.core.step.contract import StepContext
from argosy.core.store.files import write_json
from argosy.corpus.data.schemas import Message
from argosy.model.post.rl.reward import Sample
from argosy.model.post.rl.rollout import Rollout

FILE = "samples.json"
ENDS, MOST = 2, 200  # rows of each end of a rollout, and of the table, whose oldest rows go
_TAG = '[{"path": "samples.json", "type": "table"}]'  # has MLflow show the file as a table


def write_table(context: StepContext, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows by column as the step's table, and have MLflow show it."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    path = context.out / FILE
    write_json(path, {"columns": columns, "data": [[row.get(name) for name in columns] for row in rows]})
    context.tracker.artifact(path)
    context.tracker.tags({"mlflow.loggedArtifacts": _TAG})


def as_text(messages: Iterable[Message]) -> str:
    """Write a prompt as text, a turn a line."""
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


class SampleTable:
    """Rows of the table, in the form in which MLflow's tables are read: columns, and lists of their values.

    Attributes:
        rows: by column; they are part of a resumable state."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self.rows: list[dict[str, Any]] = []

    def add(self, step: int, rollout: Rollout, samples: Sequence[Sample]) -> None:
        """Add the best and the worst answers of a rollout, and log the table."""
        order = sorted(range(len(samples)), key=lambda row: (-rollout.scores[row], row))
        ends = {"best": order[:ENDS], "worst": order[ENDS:][-ENDS:][::-1]}
        for end, rows in ends.items():
            self.rows += [self._row(step, end, row, rollout, samples[row]) for row in rows]
        self.rows = self.rows[-MOST:]
        if self._context.rank == 0:
            write_table(self._context, self.rows)

    def _row(self, step: int, end: str, row: int, rollout: Rollout, sample: Sample) -> dict[str, Any]:
        parts = {f"reward/{name}": values[row] for name, values in rollout.parts.items()}
        reasons = "; ".join(f"{name}: {each[row]}" for name, each in rollout.reasons.items() if each[row])
        return {"step": step, "end": end, "prompt": as_text(sample.prompt.messages), "answer": sample.text,
                "reward": rollout.scores[row], **parts, "reasons": reasons, "tokens": len(sample.answer_ids),
                "ended": sample.ended}
