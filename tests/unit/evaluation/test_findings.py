"""Which failures of a part of an evaluation may pass by themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from argosy.errors import InputError, StepError
from argosy.evaluation.findings import is_retryable


def caused(error: Exception, by: Exception, *, shown: bool = False) -> Exception:
    """`error`, raised while `by` was handled; shown: it names that as its cause."""
    try:
        try:
            raise by
        except Exception as why:
            raise error from (why if shown else None)
    except Exception as made:
        return made


def absent() -> Exception:
    return FileNotFoundError("Unable to find 'none.jsonl'")


@pytest.mark.parametrize(
    ("make", "passes"),
    [
        (lambda: StepError("the network is down"), True),
        (lambda: InputError("no benchmark"), False),
        (lambda: ValueError("no benchmark"), False),
        (lambda: ConnectionError("the Hub does not answer"), True),
        (lambda: ImportError("no module named 'jieba'"), True),
        (lambda: OSError(5, "the disk"), True),
        (absent, False),
        (lambda: LocalEntryNotFoundError("cannot be asked, and is not in the cache"), True),
        (lambda: caused(StepError("lm-eval cannot load it"), absent()), False),
        (lambda: caused(StepError("lm-eval cannot load it"), absent(), shown=True), False),
        (lambda: caused(StepError("lm-eval cannot load it"), ConnectionError("down")), True),
        (lambda: caused(InputError("cannot be loaded"), caused(ConnectionError("down"), absent())), True),
    ],
)
def test_the_cause_says_whether_a_retry_may_mend_it(make: Callable[[], Exception], passes: bool) -> None:
    assert is_retryable(make()) == passes
