"""Threads of torch come from the config: the cores that a process is given do not touch a result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import hashlib, sys
from argosy.environment import limit_threads
limit_threads()
from argosy.determinism import make_deterministic
make_deterministic(7, int(sys.argv[1]))
import torch
values = torch.randn(3, 1_000_003)
sums = torch.stack([values.sum(), values.exp().mean(), (values @ values.T).sum()])
digest = hashlib.sha256(sums.numpy().tobytes()).hexdigest()
print(torch.get_num_threads(), digest)
"""


def _run(threads: int, given: str | None) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS")}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"ARGOSY_THREADS": given, "OMP_NUM_THREADS": given} if given else {})
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(threads)], env=environment, cwd=ROOT,
                          capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_given_cores_change_neither_threads_nor_bytes() -> None:
    results = [_run(2, given) for given in (None, "1", "4")]
    assert [count for count, _ in results] == ["2"] * 3
    assert len({digest for _, digest in results}) == 1


def test_threads_of_the_config_do_change_bytes() -> None:
    """Why they are part of the digest."""
    assert _run(1, None)[1] != _run(2, None)[1]
