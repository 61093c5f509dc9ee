"""Decisions about trouble in training, and the batches and learning rates that follow from them: `watch.json` in the
step's directory, from which a run that is started again makes the same ones."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from argosy.core.step.contract import StepContext
from argosy.core.store.files import read_record, write_json
from argosy.core.store.step_files import WATCH
from argosy.model.train.config.watch import GOES_BACK, WatchConfig
from argosy.model.train.watch import LOSS, NORM, RATE, REPEATED, UPDATE, Reading, Trouble

MOST_TOLD = 100  # decisions that only tell, of which the oldest go
_LARGE = 3.0  # norm of a gradient
_ADVICE = {
    "wild": "lower learning_rate, or lengthen the warm-up",
    "new": "so is the first step's, before any update: see whether the data have the model's tokenizer, and how its "
           "weights were made",
    UPDATE: "lower learning_rate or beta2, or see whether the optimizer's state is this run's",
    "drift": "lower learning_rate, or see whether the data change on the way",
    "collapse": "see whether data repeat: the documents in watch.json, the epochs of their channels, duplicates",
    "early": "early spikes with large gradients: lower beta2 or learning_rate, or lengthen the warm-up",
    RATE: "see what sets the learning rate: the schedule, its warm-up, a state of other settings",
    "late": "see the documents in watch.json; where they are sound, lower learning_rate or max_grad_norm",
}
Decision = dict[str, Any]


class Turn(NamedTuple):
    """An optimizer step (0, 1, ...), the batch that it learns from, and a factor of its learning rate; `lowered` is
    that without what holds the rate itself to its course."""

    step: int
    batch: int
    rate: float = 1.0
    lowered: float = 1.0


class Decisions:
    """Decisions of a phase so far, the same in every process; rank 0 writes them.

    Attributes:
        made: plain records, in the order in which they were made.
        slow: records of slow ranks; nothing follows from them, so that equal runs stay equal."""

    def __init__(self, config: WatchConfig, context: StepContext) -> None:
        self._config, self._context, self._path = config, context, context.out / WATCH
        before = read_record(self._path)
        self.made: list[Decision] = before.get("decisions", [])
        self.slow: list[Decision] = before.get("stragglers", [])

    def turn(self, step: int) -> Turn:
        """Return the turn of step `step` (1, 2, ...): batches that were passed over are never learnt from."""
        batch = step - 1
        for passed in sorted({each for made in self.made for each in made["passed"]}):
            batch += batch >= passed
        rates = [made for made in self.made if made["rate"] and made["rate"][0] <= step <= made["rate"][1]]
        rate, lowered = (math.prod(made["rate"][2] for made in some) for some in (
            rates, [made for made in rates if made["reading"] != RATE]))
        return Turn(step - 1, batch, rate, lowered)

    def action(self, trouble: Trouble) -> str:
        """Choose what is done about trouble."""
        wanted: str = getattr(self._config, trouble.kind)
        if wanted not in GOES_BACK:
            return wanted
        return "stop" if self._times() >= self._config.most else "lower" if trouble.name == RATE else wanted

    def margin(self, action: str) -> int:
        """Return the steps before trouble that an action is for too: a state before them makes the result one that does
        not depend on when states are saved."""
        return self._config.before if action in ("back", "lower") else 0

    def decide(self, step: int, trouble: Trouble, action: str, back: int | None,
               readings: Mapping[str, Reading]) -> Decision:
        """Decide about trouble that was found in step `step`; `back`: the steps of the state to go back to."""
        config, turn = self._config, self.turn(step)
        found: Decision = {
            "step": step, "kind": trouble.kind, "reading": trouble.name, "value": plain(trouble.value),
            "expected": plain(trouble.expected), "deviations": plain(trouble.deviations), "since": trouble.since,
            "action": action, "back": back, "passed": [], "rate": None,
            "readings": {name: plain(value) for name, (value, _) in readings.items()},
            "advice": self._advice(step, trouble, readings)}
        first = max(trouble.since - self.margin(action), (back or 0) + 1)
        if action in ("skip", "back"):
            gone = {each for made in self.made for each in made["passed"]}
            end = turn.batch + 1 + (config.after if action == "back" else 0)
            found["passed"] = [each for each in range(self.turn(first).batch, end) if each not in gone]
        elif trouble.name == RATE and action == "lower":
            found["rate"] = [step, step, trouble.expected / trouble.value]
        elif action == "lower":
            found["rate"] = [first, step + config.window, config.factor]
        found["said"] = self._words(found)
        return found

    def keep(self, decision: Decision) -> None:
        """Add a decision, write all of them, and have MLflow show it."""
        self.made.append(decision)
        told = [each for each in self.made if each["action"] == "tell"][:-MOST_TOLD]
        self.made = [each for each in self.made if each not in told]
        self._publish(f"watch/{len(self.made)}", decision)

    def warn(self, found: Decision) -> None:
        """Add the record of a slow rank, unless there is one of it on that node."""
        if all((each["rank"], each["node"]) != (found["rank"], found["node"]) for each in self.slow):
            self.slow.append(found)
            self._publish(f"straggler/{found['rank']}", found)

    def _publish(self, tag: str, found: Decision) -> None:
        said = f"{found['said']}; {found['advice']}"
        print(said, flush=True)
        if self._context.rank == 0:
            write_json(self._path, {"decisions": self.made, **({"stragglers": self.slow} if self.slow else {})})
            self._context.tracker.tags({tag: said})
            self._context.tracker.artifact(self._path)

    def rewind(self, step: int) -> None:
        """Forget what was said of steps after `step`, which are taken again, but for what sent the phase back."""
        self.made = [each for each in self.made if each["action"] in GOES_BACK or each["step"] <= step]

    def restore(self, saved: Sequence[Decision], step: int) -> None:
        """Take over the decisions of a state after `step` steps, where this directory has no record of its own."""
        self.made = self.made or list(saved)
        self.rewind(step)

    def _times(self) -> int:
        return sum(made["action"] in GOES_BACK for made in self.made)

    def _words(self, found: Decision) -> str:
        value, expected, far = (f"{found[name]:.4g}" if isinstance(found[name], float) else found[name]
                                for name in ("value", "expected", "deviations"))
        course = ("which is not a finite number" if found["kind"] == "nonfinite" else
                  f"where a guess has {expected}, ln(vocabulary)" if found["kind"] == "wild" else
                  f"where {expected} was expected" +
                  ("" if found["reading"] == RATE else f" ({far} robust standard deviations)"))
        what = (f"{found['reading']} is {value}, {course}" if found["reading"] != REPEATED else
                "the batch is the same as one of the 8 before it")
        batches, times, back = ", ".join(map(str, found["passed"])), self._times(), found["back"]
        how = f"without batches {batches}" if batches else f"at {(found['rate'] or [1.0])[-1]:.3g} of the learning rate"
        ends = ": the step ends" + (f" after going back {times} times (watch.most), and would again: another policy, "
                                    "rate or data make another run" if times else "")
        nowhere = ": there is no state to go back to, and the next start of this step begins anew, "
        goes = f"{nowhere if back is None else f': back to step {back}, and on '}{how}"
        return f"step {found['step']}: {found['kind']}, {what}" + {"tell": "", "stop": ends}.get(found["action"], goes)

    def _advice(self, step: int, trouble: Trouble, readings: Mapping[str, Reading]) -> str:
        if trouble.kind == "wild" and trouble.since == 1:  # its loss is that of the model as it came
            return _ADVICE["new"]
        if known := _ADVICE.get(trouble.name) or _ADVICE.get(trouble.kind):
            return known
        if trouble.name.startswith(f"{LOSS}/"):
            return f"see the documents of {trouble.name.removeprefix(f'{LOSS}/')} in watch.json"
        early = step <= self._config.early and readings.get(NORM, (0.0, 0.0))[0] > _LARGE
        return _ADVICE["early" if early else "late"]


def plain(value: float) -> float | str:
    """Return a number as a record holds it: as a word where it is not finite."""
    return value if math.isfinite(value) else str(value)
