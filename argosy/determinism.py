"""Make a process that uses torch reproducible: equal config, seed and threads give equal bytes."""

from __future__ import annotations

import os

from argosy.environment import thread_environment


def make_deterministic(seed: int, threads: int = 1) -> None:
    """Seed every generator, forbid operations whose result varies, and fix the number of threads.

    `threads` decides how sums are split, and with it their last bits. So it comes from the step's config, which is
    what a result is made from, and not from the cores that the process was given (ARGOSY_THREADS): those differ
    between a laptop and a cluster. Call it before torch is imported.
    """
    os.environ.update(thread_environment(threads))
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    # Filling fresh memory only changes what is read by mistake, and costs 3 % of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(threads)
