"""Make this process offline, quiet and quick to start before TRL is imported."""

from __future__ import annotations

import importlib
import os

from argosy.determinism import make_deterministic


def prepare_process(seed: int, threads: int) -> None:
    """Set what transformers, datasets and TRL read when they are imported; call it before importing them.

    No telemetry, no hub, no progress bars (the log is a file), no import of packages that are not used, and
    `make_deterministic(seed, threads)`.
    """
    os.environ.update(
        HF_HUB_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_DATASETS_OFFLINE="1",
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        TRL_EXPERIMENTAL_SILENCE="1",
    )
    make_deterministic(seed, threads)
    _skip_unused_packages()
    import datasets
    import transformers

    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()


def _skip_unused_packages() -> None:
    """Let the libraries think that these packages are not installed: importing them costs seconds at each start.

    scipy serves only detection losses, peft only adapters, and accelerate imports DeepSpeed (3 s) to ask whether
    a model is one of its engines. A run that a DeepSpeed launcher started keeps it.
    """
    unused = [
        ("transformers.utils", "is_scipy_available"),
        ("transformers.utils", "is_peft_available"),
        ("accelerate.utils.modeling", "is_peft_available"),
    ]
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false") != "true":
        unused.append(("accelerate.utils.other", "is_deepspeed_available"))
    for module, question in unused:
        setattr(importlib.import_module(module), question, lambda *_: False)
