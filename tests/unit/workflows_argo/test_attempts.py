"""Whether a pod is tried again, and with how much memory: real killed steps, and the template's own expressions."""

import contextlib
import os
import re
import signal
from pathlib import Path

import pytest

from argosy.core.errors import StepError
from argosy.core.store.files import read_record
from argosy.core.store.step_files import RUN
from steps.noop import NoopConfig
from tests.processes import run_python
from workflows.argo import attempts as module
from workflows.argo.attempts import HAS, NEEDS, Attempts, cause, earlier_attempts, exit_code, memory_step
from workflows.argo.profile.profile import Retry
from workflows.graph import Node, Resources
from workflows.local.runner import run_plan
from workflows.local.view import NodeResult, RunObserver, RunResult
from workflows.plan import plan

KILLED = "main: OOMKilled (exit code 137)"
RETRY = Retry(failures=2, out_of_memory=3)


class Killer(RunObserver):
    """Ends a step's process as the kernel does where its memory is used up, and leaves the runner alone."""

    def __init__(self, directory: str, number: int) -> None:
        self._run, self._number = Path(directory) / RUN, number

    def on_tick(self) -> None:
        if pid := read_record(self._run).get("pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, self._number)


@pytest.mark.parametrize(("number", "code", "counted"), [
    (signal.SIGKILL, 137, {"failures": 0, "out_of_memory": 1}),
    (signal.SIGSEGV, 75, {"failures": 1, "out_of_memory": 0})])
def test_a_step_that_is_killed_alone_is_tried_again_with_more_memory(
    number: int, code: int, counted: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = plan([Node("slow", "noop", NoopConfig(seconds=60), resources=Resources(1, 0.1))], tmp_path / "store")
    result = run_plan(planned, observers=[Killer(planned.nodes[0].dir, number)], plain=True)
    assert exit_code(result, Attempts(), RETRY, tmp_path / "plan.json", "b") == code
    assert read_record(tmp_path / "attempts/b.json") == counted
    assert (NEEDS.format(1) in capsys.readouterr().err) == (code == 137)
    assert result.exit_code == 1  # on the laptop


@pytest.mark.parametrize(
    ("codes", "attempts_so_far", "expected"),
    [([1], 0, 75), ([1], 2, 1), ([2], 0, 2), ([2, 1], 0, 75), ([-9], 0, 137), ([2, -9], 0, 137), ([-11, 2], 2, 1)])
def test_exit_codes_say_what_to_do(codes: list[int], attempts_so_far: int, expected: int, tmp_path: Path) -> None:
    node = plan([Node("a", "noop", NoopConfig())], tmp_path).nodes[0]
    results = {str(n): NodeResult(node.model_copy(update={"id": str(n)}), "failed", code=code, message="why") for n,
               code in enumerate(codes)}
    attempts = Attempts(failures=attempts_so_far)
    assert exit_code(RunResult(results=results), attempts, RETRY, tmp_path / "plan.json", "b") == expected


@pytest.mark.parametrize(("said", "expected"), [
    ("", 0),
    ("pod deleted", 0),
    (KILLED, 1),
    ("main: Error (exit code 137)", 0),  # any SIGKILL
    (f"{KILLED}: {HAS.format(1)} ", 2),
    (f"{KILLED}: {HAS.format(3)} ", 3),
    (f"main: Error (exit code 137): {HAS.format(2)} ", 2),
    (f"main: Error (exit code 75): {HAS.format(2)} sft: failed", 2),
    (f"main: Error (exit code 75): {NEEDS.format(3)} more", 3),
    (f"{KILLED}: {HAS.format(1)} {NEEDS.format(2)} killed", 2)])
def test_memory_of_the_next_attempt_follows_from_what_the_last_one_said(said: str, expected: int) -> None:
    assert evaluate(memory_step(RETRY), said) == str(expected)
    assert evaluate(memory_step(Retry(out_of_memory=0)), said) == "0"


@pytest.mark.parametrize(("said", "expected"), [
    (KILLED, "memory"),
    ("main: Error (exit code 137)", ""),
    (f"{KILLED}: {NEEDS.format(2)} killed", ""),  # the pod has counted it itself
    ("Pod was active on the node longer than the specified deadline", "deadline"),
    ("", "")])
def test_the_cause_of_the_last_end(said: str, expected: str) -> None:
    assert evaluate(cause(), said) == expected


def evaluate(expression: str, said: str) -> str:
    """The template's expression for a `lastRetry.message`: ?:, &&, not and contains, as Argo's language has them."""
    asked = r"lastRetry\.message contains '([^']*)'"
    text = re.sub(asked, lambda found: str(found[1] in said), expression)
    while inner := re.search(r"\(([^()]*)\)", text):
        text = text[: inner.start()] + _choose(inner[1]) + text[inner.end() :]
    return _choose(text).strip("'")


def _choose(text: str) -> str:
    condition, question, rest = text.partition(" ? ")
    if not question:
        return text.strip()
    true = all((part == "True") != negated for part, negated in map(_term, condition.split(" && ")))
    yes, _, no = rest.partition(" : ")
    return yes.strip() if true else _choose(no)


def _term(text: str) -> tuple[str, bool]:
    return text.removeprefix("not ").strip(), text.startswith("not ")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("ARGOSY_RETRY", "ARGOSY_LAST_CAUSE", "ARGOSY_MEMORY_STEP"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "plan.json"


def started(store: Path, monkeypatch: pytest.MonkeyPatch, retry: int, cause: str, has: int) -> tuple[Attempts, bool]:
    """A pod's start: what it knows of earlier attempts, and whether it ends for want of memory."""
    monkeypatch.setenv("ARGOSY_RETRY", str(retry))
    monkeypatch.setenv("ARGOSY_LAST_CAUSE", cause)
    monkeypatch.setenv("ARGOSY_MEMORY_STEP", str(has))
    attempts = earlier_attempts(store, "b", RETRY)
    return attempts, attempts.lack_memory


def test_more_memory_survives_a_deleted_pod(store: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    assert started(store, monkeypatch, 0, "", 0) == (Attempts(), False)
    assert started(store, monkeypatch, 1, "", 0) == (Attempts(), False)  # preempted
    assert started(store, monkeypatch, 2, "memory", 1) == (Attempts(out_of_memory=1), False)
    assert started(store, monkeypatch, 3, "", 0) == (Attempts(out_of_memory=1), True)  # without a message
    assert evaluate(memory_step(RETRY), capsys.readouterr().err) == "1"
    assert started(store, monkeypatch, 4, "", 1) == (Attempts(out_of_memory=1), False)


def test_a_pod_with_more_memory_says_so_before_it_can_be_killed(monkeypatch: pytest.MonkeyPatch,
                                                                tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setattr(module, "TERMINATION_LOG", log)
    monkeypatch.setattr(module, "_prefix", "")
    monkeypatch.setenv("ARGOSY_MEMORY_STEP", "2")
    module.note_memory()
    assert evaluate(memory_step(RETRY), f"{KILLED}: {log.read_text()}") == "3"
    module.say_why("sft: failed")
    assert evaluate(memory_step(RETRY), log.read_text()) == "2"
    assert log.read_text().endswith("sft: failed")
    lean = "import sys, workflows.argo.pod as pod; sys.exit('pydantic' in sys.modules or not pod.note_memory)"
    assert run_python("-c", lean).returncode == 0


def test_a_workflow_that_is_retried_has_all_its_attempts_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Attempts(failures=3, out_of_memory=2).write(store, "b")
    assert started(store, monkeypatch, 0, "", 0) == (Attempts(), False)
    assert Attempts.read(store, "b") == Attempts()


@pytest.mark.parametrize(("cause", "count", "most", "words"), [
    ("deadline", "failures", 2, "failed 3 times, the last time by its deadline"),
    ("memory", "out_of_memory", 3, r"resources\.STAGE\.memory_gb")])
def test_a_deadline_is_a_failure_and_too_many_or_too_little_memory_too_often_end_with_what_to_do(
    cause: str, count: str, most: int, words: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, most + 1):
        has = number if cause == "memory" else 0
        assert started(store, monkeypatch, number, cause, has) == (Attempts(**{count: number}), False)
    with pytest.raises(StepError, match=words):
        started(store, monkeypatch, most + 1, cause, has)
