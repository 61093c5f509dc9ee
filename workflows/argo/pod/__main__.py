"""The command line of every pod: python -m workflows.argo.pod plan|run|finish ..."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from argosy.core.errors import ArgosyError
from workflows.argo.attempts import say_why
from workflows.argo.profile.profile import load_profile

# Modules of this package: a pod imports that of its command alone, since each imports much that others do not need.
COMMANDS = {"plan": "plan", "run": "run", "finish": "finish", "judge": "nightly", "promote": "promote",
            "reconcile": "reconcile", "show": "outputs"}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """A parser whose errors are shown in the UI too."""

    def error(self, message: str) -> NoReturn:
        """Exit 2. People do not type these arguments: templates have them."""
        say_why(f"{self.prog}: {message}; the WorkflowTemplate is of another version of Argosy than this image: "
                "install the templates of the image's version, or name an image of theirs (images.tag of the profile)")
        sys.exit(2)


def _module(command: str) -> Any:
    return import_module(f"workflows.argo.pod.{COMMANDS[command]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 1 or 2 after an error, which the UI shows too, or a code of `run` for a retry."""
    parser = Parser("python -m workflows.argo.pod", description=__doc__)
    choices = parser.add_subparsers(dest="command", required=True)
    given = sys.argv[1:] if argv is None else argv
    chosen = next((word for word in given if word in COMMANDS), "")
    for name in COMMANDS:
        command = choices.add_parser(name)
        command.add_argument("--profile", required=True)
        command.add_argument("--workflow", required=name != "reconcile", default="")
        if name == chosen and hasattr(_module(name), "add_arguments"):
            _module(name).add_arguments(command)
    arguments = parser.parse_args(given)
    os.umask(0o002)  # Argo's executor leaves 0, with which anybody may write the store
    try:
        code: int = _module(arguments.command).run(load_profile(arguments.profile), arguments)
        return code
    except ArgosyError as error:
        say_why(str(error))
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        say_why(f"{type(error).__name__}: {error} (the pod's log says where)")
        return 1


if __name__ == "__main__":
    sys.exit(main())
