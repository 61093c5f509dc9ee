"""The promotion of a lifecycle's final checkpoint, with the evidence; once a person approved."""

import argparse
from pathlib import Path

from argosy.core.errors import InputError, StepError
from argosy.core.tracking.mlflow.registry import Registry, registered_name
from argosy.core.tracking.mlflow.server import Server, tracking_uri
from argosy.core.tracking.ship import Unavailable
from workflows.argo.attempts import RETRY, say_why
from workflows.argo.handoff import FOLDER, read_handoff
from workflows.argo.objectstore.pods import promoting
from workflows.argo.profile.profile import Profile
from workflows.local.shipping import ship
from workflows.nightly.candidates import find_candidates, gate_for
from workflows.nightly.promotion import Grounds, Refused, described, examine, final_checkpoint, promote


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    """Promote; return 0, 1 where the gate fails, 2 with nothing to promote, 75 where MLflow does not answer."""
    with promoting(profile, arguments.workflow) as fetch:
        handoff = read_handoff(Path(profile.storage.root) / FOLDER / arguments.workflow / "plan.json")
        if arguments.decision == "keep":
            print(f"{profile.nightly.alias} stays as it is{f', says {arguments.by}' if arguments.by else ''}")
            return 0
        if not handoff.report:
            raise InputError("this workflow compares nothing, so nothing can be promoted")
        candidate = final_checkpoint(Path(handoff.report))
        store = Path(handoff.store)
        if not ship(handoff.store):  # the checkpoint is to be known there
            say_why("MLflow does not take what steps logged: promotion waits for it")
            return RETRY
        alias, model = profile.nightly.alias, profile.nightly.model
        registry = Registry(Server(tracking_uri(store), store))
        by = arguments.by or f"workflow {arguments.workflow}"
        try:
            gate = gate_for(None, store, candidate.step.line)
            verdict, against = examine(
                gate, candidate, find_candidates(store), store, registry, alias=alias, model=model, fetch=fetch
            ) if gate is not None else (None, None)
            grounds = Grounds(by, handoff.report, arguments.workflow, verdict, against=against)
            before, now = promote(registry, candidate, store, grounds, alias=alias, model=model)
        except Refused as error:
            say_why(f"{error}; argosy promote --force WHY moves it all the same")
            return error.exit_code
        except (StepError, Unavailable) as error:
            say_why(str(error))
            return RETRY
        print(f"{registered_name(model or handoff.line)}@{alias} is {described(now)}, {candidate.label}; "
              f"it was {described(before)}")
        return 0
