"""The command line of every pod: python -m workflows.argo.pod plan|run|finish ..."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from argosy.errors import ArgosyError
from workflows.argo.attempts import say_why
from workflows.argo.pod import finish, nightly, plan, promote, reconcile, run
from workflows.argo.pod import outputs as show
from workflows.argo.profile.profile import load_profile

COMMANDS: dict[str, ModuleType] = {
    "plan": plan, "run": run, "finish": finish, "judge": nightly, "promote": promote,
    "reconcile": reconcile, "show": show,
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """A parser whose errors are shown in the UI too."""

    def error(self, message: str) -> NoReturn:
        """Exit 2."""
        say_why(f"{self.prog}: {message}")
        sys.exit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 1 or 2 after an error, which the UI shows too, or a code of `run` for a retry."""
    parser = Parser("python -m workflows.argo.pod", description=__doc__)
    choices = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        command = choices.add_parser(name, help=module.__doc__)
        command.add_argument("--profile", required=True)
        command.add_argument("--workflow", required=name != "reconcile", default="")
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
    arguments = parser.parse_args(argv)
    os.umask(0o002)  # Argo's executor leaves 0, with which anybody may write the store
    try:
        code: int = COMMANDS[arguments.command].run(load_profile(arguments.profile), arguments)
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
