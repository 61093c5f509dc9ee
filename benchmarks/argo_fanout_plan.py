"""The plan pod of `benchmarks.argo_fanout`: many small parts, handed over by what hands a lifecycle's over."""

import argparse
from pathlib import Path

from steps.noop import NoopConfig
from workflows.argo.handoff import OUTPUTS, Task
from workflows.argo.pod.plan import hand_over
from workflows.argo.profile.profile import load_profile
from workflows.graph import Node, Resources
from workflows.lifecycle import LifecycleConfig
from workflows.plan import plan

PARTS = Task(name="noop", stage="noop", own=frozenset(), upstream=(), needs="data")
RESOURCES = Resources(1, 0.5)


def nodes_of(count: int) -> list[Node]:
    """Parts of one fan-out, a hundred to a process."""
    return [
        Node("noop", "noop", NoopConfig(index=n), part=f"p{n}", resources=RESOURCES, batch=100) for n in range(count)
    ]


def main() -> None:
    """Write the handoff and Argo's output parameters."""
    parser = argparse.ArgumentParser("python -m benchmarks.argo_fanout_plan", description=__doc__)
    parser.add_argument("--parts", type=int, required=True)
    for name in ("--workflow", "--profile", "--image-tag", "--priority"):
        parser.add_argument(name, default="")
    arguments, _ = parser.parse_known_args()
    arguments.outputs = Path(OUTPUTS)
    profile = load_profile(arguments.profile)
    planned = plan(nodes_of(arguments.parts), profile.storage.root)
    hand_over(planned, LifecycleConfig(name="fan-out"), "fan-out", [PARTS], profile, arguments)


if __name__ == "__main__":
    main()
