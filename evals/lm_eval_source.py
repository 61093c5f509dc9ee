"""Items of a task from lm-eval's own tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from argosy.errors import InputError, StepError
from evals.items import Items
from evals.lm_eval_items import items_of
from evals.lm_eval_load import Stamp, load, stamp, why_not
from evals.task_sources import merged

if TYPE_CHECKING:
    from evals.task_spec import TaskSpec


def lm_eval_items(spec: TaskSpec, limit: int | None, *, shots: bool = False) -> Items:
    """Items of a task of lm-eval's, or of all tasks of a group, at most `limit` of each; with `shots` those that its
    examples come from (none where that are the items themselves).

    Raises:
        InputError: lm-eval does not know it, or it is not of multiple choice.
        StepError: its data cannot be loaded.
    """
    tasks = _lm_eval_tasks(spec.lm_eval, spec.include_path, stamp(spec.include_path))
    wrong = {name: str(task.OUTPUT_TYPE) for name, task in tasks.items() if not _of_choice(task)}
    if len(wrong) == len(tasks):
        name, kind = next(iter(wrong.items()), (spec.lm_eval, "none"))
        raise InputError(f"lm-eval's task {name} is of type {kind}: variants are made of multiple_choice tasks of YAML "
                         "alone; name it in benchmarks.lm_eval to run it as it is")  # fmt: skip
    about = {"lang": spec.lang, "subject": spec.subject}
    parts = [Items([], Counter({f"task {name} is of type {kind}": 1 for name, kind in wrong.items()}))]
    for name, task in tasks.items():
        if name not in wrong and not shots:
            task.set_fewshot_seed(1234)  # each reading draws the same examples
            parts.append(items_of(task, task.eval_docs, name=name, limit=limit, **about))
        elif name not in wrong and (docs := task.fewshot_docs()) is not None and _first(docs) != _first(task.eval_docs):
            parts.append(items_of(task, docs, name=f"{name}/shots", limit=limit, **about))
    found = merged(parts)
    if not found.items and not shots:
        raise InputError(f"lm-eval's task {spec.lm_eval}: no usable item; documents left out: {dict(found.left_out)}")
    return found


@lru_cache(maxsize=16)
def _lm_eval_tasks(name: str, include_path: str, changed: Stamp) -> Mapping[str, Any]:
    try:
        tasks: Mapping[str, Any] = load(name, include_path)["tasks"]
    except Exception as error:  # a task's own code and data decide what is raised
        why, unknown = why_not(name, error)
        if unknown:
            raise InputError(f"lm_eval is {name!r}: {why}; `lm_eval ls tasks` lists those of the package, and "
                             "include_path adds a folder of YAML") from None  # fmt: skip
        raise StepError(f"lm-eval cannot load {name}: {why}; its data is read from Hugging Face, or from its cache "
                        "on this machine (HF_HOME): try again where there is a network") from None  # fmt: skip
    return tasks


def _of_choice(task: Any) -> bool:
    return task.OUTPUT_TYPE == "multiple_choice" and hasattr(task, "doc_to_choice")


def _first(docs: Any) -> Any:
    return next(iter(docs), None)
