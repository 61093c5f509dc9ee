"""Make a process that uses torch reproducible: equal config, seed and threads give equal bytes."""

from __future__ import annotations

import os


def make_deterministic(seed: int) -> None:
    """Seed every generator, forbid operations whose result varies, and fix the number of threads.

    Threads are what the node was given (ARGOSY_THREADS), since they decide the order of summation.
    """
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
    torch.set_num_threads(int(os.environ.get("ARGOSY_THREADS", "1")))
