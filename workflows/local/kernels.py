"""The loops of cleaning, compiled before anybody waits for them: `python -m workflows.local.kernels [RECIPE]`.

Images run it for every filter, `make setup` for those of one recipe, the default. It cleans the tiny preset's corpus,
as steps do, since numba compiles a loop for the types that it is called with. They go where numba keeps them
(NUMBA_CACHE_DIR)."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from argosy.core.store.step_files import LOG
from argosy.corpus.cleaning.dedup.deduplicator import Deduplicator
from argosy.corpus.cleaning.filter import Filter
from argosy.corpus.cleaning.filters import FILTERS
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.local.runner import run_plan
from workflows.plan import Plan, plan


def plan_cleaning(store: Path, recipe: str = "") -> Plan:
    """Plan a run to `clean` with a recipe's filters, or with all that need no settings; deduplication first then, while
    there are copies."""
    if recipe:
        return plan(lifecycle(compose("tiny", overrides=[f"clean.filters={recipe}"])), store, None, "clean")
    ready = [name for name, one in FILTERS.items() if _is_ready(one)]
    names = sorted(ready, key=lambda name: (not issubclass(FILTERS[name], Deduplicator), name))
    good = store / "good.jsonl"  # documents for a classifier to learn from
    good.parent.mkdir(parents=True, exist_ok=True)
    good.write_text("".join(json.dumps({"text": f"A good document, number {at}."}) + "\n" for at in range(200)))
    config = compose("tiny", overrides=[f"clean.filters={json.dumps(names)}", f"classifier.positives=[{good}]"])
    return plan(lifecycle(config), store, None, "clean")


def _is_ready(one: type[Filter[Any]]) -> bool:
    fields = one.config_class.model_fields
    return not any(field.is_required() for name, field in fields.items() if name != "name")


def main() -> int:
    """Run it in a store that is removed again; where a step fails, its log says why."""
    with tempfile.TemporaryDirectory() as store:
        planned = plan_cleaning(Path(store), *sys.argv[1:2])
        result = run_plan(planned, plain=True)
        if result.exit_code:
            for node in planned.nodes:
                print(Path(node.dir, LOG).read_text() if Path(node.dir, LOG).exists() else "", file=sys.stderr)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
