"""python -m workflows.argo.pod plan|run|finish ...: the command line of every pod."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from argosy.errors import ArgosyError
from workflows.argo.pod import finish, nightly, plan, promote, reconcile, run, show
from workflows.argo.pod.message import say_why

COMMANDS: dict[str, ModuleType] = {
    "plan": plan, "run": run, "finish": finish, "judge": nightly, "promote": promote,
    "reconcile": reconcile, "show": show,
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """Wrong arguments are told in the UI too."""

    def error(self, message: str) -> NoReturn:
        """Exit 2."""
        say_why(f"{self.prog}: {message}")
        sys.exit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0; 1 or 2 after an error, whose text the UI shows too; `run` has further codes for retries."""
    parser = Parser("python -m workflows.argo.pod", description=__doc__)
    choices = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(choices.add_parser(name, help=module.__doc__))
    arguments = parser.parse_args(argv)
    os.umask(0o002)  # Argo's executor leaves 0, with which anybody may write the store
    try:
        code: int = COMMANDS[arguments.command].run(arguments)
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
