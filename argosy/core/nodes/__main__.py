"""The check as a command of its own, on each node in front of a job:

    srun --ntasks-per-node=1 python -m argosy.core.nodes && srun torchrun ...
"""

import sys

from argosy.core.errors import ArgosyError
from argosy.core.nodes.command import check_nodes, parser

if __name__ == "__main__":
    try:
        sys.exit(check_nodes(parser().parse_args()))
    except ArgosyError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
