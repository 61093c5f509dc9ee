"""Which failures of a part of an evaluation may pass by themselves; what MLflow draws of the rest."""

from collections.abc import Callable

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from argosy.core.errors import InputError, StepError
from argosy.core.statistics.intervals import Estimate
from argosy.core.statistics.metric import share
from argosy.evidence.compare.checkpoints import Checkpoint, headline_of
from argosy.evidence.results.findings import Findings, is_retryable
from argosy.evidence.results.rows import Rows


def test_mlflow_draws_the_headline_and_no_constants() -> None:
    found = Findings(headline={"t": ["permuted", "plain"]})
    for form, value, error in (("plain", 0.5, 0.1), ("permuted", 0.25, 0.05), ("cloze", 0.75, 0.2)):
        found.add(f"bench/t/{form}/acc", Estimate(value, error, 10), share(chance="chance"))
        found.add(f"bench/t/{form}/chance", Estimate(0.25, 0.0, 10), share("neither"))
    found.rows = [{"task": "t", "variant": form, "id": item, "correct": item in right, "scores": [0.0, 1.0], "gold": 0}
                  for form, right in (("plain", ""), ("permuted", "abcdef"), ("cloze", "")) for item in "abcdefg"]
    charted = found.charted()
    assert charted.keys() == {"bench/t/plain/acc", "bench/t/permuted/acc", "bench/t/cloze/acc", "headline/t/acc",
                              "headline/t/stderr", "headline/t/form/permuted"}
    assert charted["headline/t/acc"] == pytest.approx(6 / 7)
    compared = Checkpoint("k", "d", "sft", "p100", 1, 1, headline=found.headline)
    compared.rows = Rows(found.rows)
    compared.add_headline("t", ["permuted"])
    name = headline_of("t")
    assert (compared.metrics[name], compared.stderr[name]) == (charted["headline/t/acc"], charted["headline/t/stderr"])


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


@pytest.mark.parametrize(("make", "passes"), [
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
    (lambda: caused(InputError("cannot be loaded"), caused(ConnectionError("down"), absent())), True)])
def test_the_cause_says_whether_a_retry_may_mend_it(make: Callable[[], Exception], passes: bool) -> None:
    assert is_retryable(make()) == passes
