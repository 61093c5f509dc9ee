"""Let the registry's alias name the final checkpoint of a lifecycle, with the evidence; once a person approved."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from argosy.errors import InputError, StepError
from argosy.gate.check import Verdict
from argosy.gate.render import lines
from argosy.tracking.registry import Registry, registered_name
from argosy.tracking.server import Server, tracking_uri
from argosy.tracking.shipper import Unavailable
from workflows.argo.handoff import FOLDER, read_handoff
from workflows.argo.pod.again import AGAIN
from workflows.argo.pod.message import say_why
from workflows.argo.profile import Profile
from workflows.argo.profile_load import load_profile
from workflows.argo.remote.night import Fetch, promoting
from workflows.local.process import ROOT
from workflows.nightly.found import find
from workflows.nightly.gating import evaluations_of, gate_for, hold, reference_of
from workflows.nightly.promotion import Grounds, Refused, described, final_checkpoint, promote
from workflows.nightly.reference import Chosen
from workflows.sender import COMMAND


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the template fills in."""
    parser.add_argument("--workflow", required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--decision", choices=["promote", "keep"], default="promote")
    parser.add_argument("--by", default="")


def run(arguments: argparse.Namespace) -> int:
    """0; 1 the gate does not hold; 2 nothing to promote; 75 MLflow does not answer."""
    profile = load_profile(arguments.profile)
    with promoting(profile, arguments.workflow) as fetch:
        return _decide(profile, arguments, fetch)


def _decide(profile: Profile, arguments: argparse.Namespace, fetch: Fetch) -> int:
    handoff = read_handoff(Path(profile.storage.root) / FOLDER / arguments.workflow / "plan.json")
    if arguments.decision == "keep":
        print(f"{profile.nightly.alias} stays as it is{f', says {arguments.by}' if arguments.by else ''}")
        return 0
    if not handoff.report:
        raise InputError("this workflow compares nothing, so nothing can be promoted")
    chosen = final_checkpoint(Path(handoff.report))
    store = Path(handoff.store)
    ship = [sys.executable, *COMMAND, "--store", handoff.store, "--once"]  # the checkpoint is to be known there
    if subprocess.run(ship, cwd=ROOT, check=False).returncode:
        say_why("MLflow does not take what steps logged: promotion waits for it")
        return AGAIN
    alias, model = profile.nightly.alias, profile.nightly.model
    registry = Registry(Server(tracking_uri(store), store))
    by = arguments.by or f"workflow {arguments.workflow}"
    try:
        verdict, against = _verdict(chosen, registry, alias, model, store, fetch)
        grounds = Grounds(by, handoff.report, arguments.workflow, verdict, against=against)
        before, now = promote(registry, chosen, store, grounds, alias=alias, model=model)
    except Refused as error:
        say_why(f"{error}; argosy promote --force WHY moves it all the same")
        return error.exit_code
    except (StepError, Unavailable) as error:
        say_why(str(error))
        return AGAIN
    print(f"{registered_name(model or handoff.line)}@{alias} is {described(now)}, {chosen.label}; "
          f"it was {described(before)}")
    return 0


def _verdict(
    chosen: Chosen, registry: Registry, alias: str, model: str, store: Path, fetch: Fetch
) -> tuple[Verdict | None, str | None]:
    """What the gate of the model line says, in the pod's log, and of what the alias named; None where it has none."""
    gate = gate_for(None, store, chosen.trained.line)
    if gate is None:
        return None, None
    reference = reference_of("", alias, model or chosen.trained.line, find(store), store, registry)
    if isinstance(reference, Chosen) and reference.key == chosen.key:
        return None, chosen.key  # the alias names it already
    compared = [chosen, *([reference] if isinstance(reference, Chosen) else [])]
    fetch(path for each in compared for path in evaluations_of(each, store))
    verdict = hold(gate, chosen, reference, store)
    print("\n".join(lines(verdict)), flush=True)
    return verdict, reference.key if isinstance(reference, Chosen) else reference or ""
