"""What to say of a node that has no results yet."""

from __future__ import annotations

from pathlib import Path

from argosy.step_files import OUTPUTS
from workflows.last_run import last_run
from workflows.state import blocked_by, state_of


def unfinished(store: Path, name: str, directory: Path) -> str:
    """Why `directory`, which belongs to the node `name`, has no results yet, and what to type."""
    state = state_of(str(directory))
    at = "" if store == Path("runs") else f" --store {store}"
    if state is None:
        cause = _blocked(store).get(name)
        if cause:
            return f"{name} has not run: it is blocked, as {cause} failed; 'argosy logs {cause}{at}' shows why"
        return f"{name} has not run yet (pending); 'argosy run', with the options of the last time, goes on"
    if state.name == "running":
        return f"{name} is not done yet, it is {state.reason}; 'argosy logs {name} -f{at}' follows it"
    if state.name == "failed":
        return f"{name} {state.reason}; 'argosy logs {name}{at}' shows more"
    if state.reason.startswith(OUTPUTS):
        return (f"{name} is not done: its {OUTPUTS} is broken; 'argosy run', with the options of the last time, "
                "runs it again")
    return f"{name} is not done: it {state.reason}; 'argosy run', with the options of the last time, goes on"


def _blocked(store: Path) -> dict[str, str]:
    run = last_run(store)
    states = {key: state_of(str(store / path)) for key, path in run.directories.items()}
    return blocked_by(run.upstream, {key for key, state in states.items() if state and state.name == "failed"})
