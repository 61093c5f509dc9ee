"""The command line of every pod: python -m workflows.argo.pod plan|run|finish ..."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from argosy.core.errors import ArgosyError
from workflows.argo.attempts import say_why
from workflows.argo.handoff import OUTPUTS
from workflows.argo.profile.profile import load_profile

_OF_PLAN = ("image-tag", "priority", "preset", "from", "to", "seeds", "channel", "target-parameters",
            "fields")  # fmt: skip
_OUTPUTS = {"outputs": Path(OUTPUTS)}
# Each command's function below this package, and the options that the templates fill in: their defaults (...: it must
# be given), or what is allowed. A pod imports the module of its command alone: each needs much that others do not.
_OF_NO_WORKFLOW = ("reconcile", "cordon", "serve")
COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "plan": ("plan.run", {"promote": "no", **dict.fromkeys(_OF_PLAN, ""), **_OUTPUTS}),
    "run": ("run.run", {"batch": ..., **_OUTPUTS}),
    "join": ("jobset.join", {"batch": ..., "attempt": ...}),
    "remake": ("jobset.remake", {"batch": ..., "attempt": ..., **_OUTPUTS}),
    "wait": ("early.wait", {"queue": ..., **_OUTPUTS}),
    "end": ("early.end", {}),
    "finish": ("finish.finish", {"status": ...}),
    "judge": ("nightly.run", {}),
    "promote": ("nightly.promote_final", {"decision": ("promote", "keep"), "by": ""}),
    "reconcile": ("finish.reconcile", {"once": False}),
    "cordon": ("nodes.cordon", {"once": False}),
    "serve": ("serving.serve", {"checkpoint": ...}),
    "show": ("outputs.run", _OUTPUTS),
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are shown in the UI too."""

    def error(self, message: str) -> NoReturn:
        """Exit 2. People do not type these arguments: templates have them."""
        say_why(f"{self.prog}: {message}; the WorkflowTemplate is of another version of Argosy than this image: "
                "install the templates of the image's version, or name an image of theirs (images.tag of the profile)")
        sys.exit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 1 or 2 after an error, which the UI shows too, or a code of `run` for a retry."""
    parser = Parser("python -m workflows.argo.pod", description=__doc__)
    choices = parser.add_subparsers(dest="command", required=True)
    for name, (_, options) in COMMANDS.items():
        command = choices.add_parser(name)
        command.add_argument("--profile", required=True)
        command.add_argument("--workflow", required=name not in _OF_NO_WORKFLOW, default="")
        if name == "plan":
            command.add_argument("template", choices=["lifecycle", "evaluate", "sweep"])
        for option, default in options.items():
            if default is False:
                command.add_argument(f"--{option}", action="store_true")
            elif isinstance(default, tuple):
                command.add_argument(f"--{option}", choices=default, default=default[0])
            else:
                kind = Path if isinstance(default, Path) else str
                command.add_argument(f"--{option}", required=default is ..., default=default, type=kind)
    arguments = parser.parse_args(argv)
    os.umask(0o002)  # Argo's executor leaves 0, with which anybody may write the store
    module, _, function = COMMANDS[arguments.command][0].partition(".")
    try:
        run = getattr(import_module(f"workflows.argo.pod.{module}"), function)
        return int(run(load_profile(arguments.profile), arguments))
    except ArgosyError as error:
        say_why(str(error))
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        say_why(f"{type(error).__name__}: {error} (the pod's log says where)")
        return 1


if __name__ == "__main__":
    sys.exit(main())
