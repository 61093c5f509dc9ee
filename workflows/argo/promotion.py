"""Promotion in the lifecycle's workflow: after the comparison, at once or when a person has approved in the UI."""

from __future__ import annotations

from hera.workflows import Container, Parameter, Suspend, Task
from hera.workflows import models as m

from workflows.argo.containers import WORKFLOW, Tail, container, parameter, retry
from workflows.argo.profile import Profile

APPROVE, PROMOTE, APPROVED = "approve", "promote", "promote-approved"
DECISIONS = ["promote", "keep"]
_ASKED = f"'{parameter('promote')}' == "


def promotion(profile: Profile, after: str = "compare") -> Tail:
    """The tasks that follow `after`, each skipped unless the parameter `promote` asks for it."""
    compared = f"({after}.Succeeded || {after}.Skipped)"
    return Tail(
        tasks=[
            Task(name=APPROVE, template=APPROVE, depends=compared, when=f"{_ASKED}'ask'"),
            # Apart: what a person gave is not there where nobody was asked.
            Task(name=APPROVED, template=PROMOTE, depends=f"{APPROVE}.Succeeded || {APPROVE}.Skipped",
                 when=f"{_ASKED}'ask'",
                 arguments=[_supplied("decision", DECISIONS[0]), _supplied("by", "")]),
            Task(name=PROMOTE, template=PROMOTE, depends=compared, when=f"{_ASKED}'yes'",
                 arguments=[Parameter(name="decision", value=DECISIONS[0]), Parameter(name="by", value="")]),
        ],
        templates=[_approve(), _promote(profile)],
    )  # fmt: skip


def _supplied(name: str, default: str) -> Parameter:
    """What the person gave: whoever resumes the node alone, as the UI does, leaves out what was not touched."""
    return Parameter(name=name, value=f"{{{{=tasks.{APPROVE}?.outputs?.parameters?.{name} ?? '{default}'}}}}")


def _approve() -> Suspend:
    """Waits; the UI's form asks for the decision and by whom it was made."""
    given = m.SuppliedValueFrom()
    return Suspend(
        name=APPROVE,
        inputs=[
            Parameter(name="decision", default=DECISIONS[0], enum=DECISIONS, description="After a look at the report"),
            Parameter(name="by", default="", description="Who decides; is kept with the model's version"),
        ],
        outputs=[
            Parameter(name="decision", value_from=m.ValueFrom(supplied=given, default=DECISIONS[0])),
            Parameter(name="by", value_from=m.ValueFrom(supplied=given, default="")),
        ],
    )


def _promote(profile: Profile) -> Container:
    args = [PROMOTE, "--workflow", WORKFLOW, "--profile", parameter("profile"),
            "--decision={{inputs.parameters.decision}}", "--by={{inputs.parameters.by}}"]  # fmt: skip
    return container(PROMOTE, profile, args, inputs=["decision", "by"], retry_strategy=retry(profile))
