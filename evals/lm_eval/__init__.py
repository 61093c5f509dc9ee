"""Tasks of lm-eval by their names, from the package and from folders of YAML: the texts of their prompts, and documents
of multiple choice as items, so that every variant can be made of them."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from argosy.core.errors import InputError, StepError
from evals.extract.listed import LETTERS_ALONE, are_labels, split_prompt
from evals.formats import collected
from evals.items import LETTERS, BrokenItem, HarnessForm, Item, Items, merged
from evals.records import language_of

Stamp = tuple[tuple[str, int], ...]


def load(name: str, include_path: str = "") -> Mapping[str, Any]:
    """Load `tasks` by name, and, where the name is a group's, `groups`. Their data is read, from Hugging Face where it
    is not on the machine.

    `include_path`: a folder with YAML of further tasks; "": lm-eval's own alone. Raises Exception: KeyError where
    there is none; else what its code or the reading of its data raises."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    loaded: Mapping[str, Any] = _manager(include_path, stamp(include_path)).load([name])
    for task in loaded["tasks"].values():
        if task.get_config("num_fewshot") is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(1234)  # lm-eval's default
    return loaded


def load_error(name: str, error: Exception) -> tuple[str, bool]:
    """Say why lm-eval could not load a task, and whether it has none of this name."""
    unknown = isinstance(error, KeyError) and name in str(error)
    first, *_ = str(error).strip().splitlines() or [""]
    return (str(error.args[0]) if unknown else f"{type(error).__name__}: {first}"), unknown


@lru_cache(maxsize=4)
def _manager(include_path: str, stamp: Stamp) -> Any:
    """Make one manager for all tasks: to list those of the package takes seconds."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=include_path or None, include_defaults=True)


def stamp(folder: str, *kinds: str) -> Stamp:
    """List files of these kinds below a folder with their times, to see a change; by default YAML and functions."""
    found = sorted(path for kind in kinds or ("*.y*ml", "*.py") for path in Path(folder).rglob(kind)) if folder else []
    return tuple((str(path), path.stat().st_mtime_ns) for path in found)


_MARK = "\x00"  # stands for the question


@cache
def description(task: str) -> str:
    """Read the beginning of the prompts of lm-eval's `task`: its `description`, and the text that its `doc_to_text` has
    before the question and the mark before that (TruthfulQA's `Q: `); InputError where there is no such task."""
    config = _config(task)
    text = str(config.get("doc_to_text", ""))
    if "{%" not in text:
        return str(config.get("description", ""))
    from jinja2 import Environment

    rendered = Environment(keep_trailing_newline=True).from_string(text).render(question=_MARK)
    head = rendered.partition(_MARK)[0]
    return str(config.get("description", "")) + head[: head.rfind("\n") + 1]


def _config(task: str) -> dict[str, Any]:
    spec = find_spec("lm_eval")
    folder = Path(spec.submodule_search_locations[0]) / "tasks" if spec and spec.submodule_search_locations else None
    found = sorted(folder.rglob(f"{task}.yaml")) if folder else []
    if not found:
        raise InputError(f"lm-eval has no task {task!r}; variant lm_eval takes its description_of from there")
    return dict(yaml.load(found[0].read_text(encoding="utf-8"), Loader=_Loader))


class _Loader(yaml.SafeLoader):
    """Reads task files without running their functions."""


_Loader.add_constructor("!function", lambda loader, node: node.value)


Doc = Mapping[str, Any]
NO_QUESTION = "has no question apart from its options"
_SAME = "two choices are the same"


def items_of(task: Any, docs: Iterable[Doc], *, lang: str, subject: str, name: str, limit: int | None,
             mix: bool | None = None) -> Items:
    """Turn documents into items, at most `limit`; one that lm-eval cannot ask, or without a right option, is left out.

    Args:
        task: a ConfigurableTask of type multiple_choice.
        lang, subject: of all; "": zh where there are Chinese characters, and the task's name.
        name: the beginning of ids.
        mix: see `evals.formats.collected`."""

    def made(number: int, doc: Doc) -> Item | BrokenItem:
        try:
            return _item(task, doc, f"{name}/{number}", lang, subject or task.task_name)
        except BrokenItem as reason:
            return reason

    return collected(([made(number, doc)] for number, doc in enumerate(docs)), name, limit, mix)


def _item(task: Any, doc: Doc, id: str, lang: str, subject: str) -> Item:
    try:
        choices = tuple(task.doc_to_choice(doc))
        prompt = task.doc_to_text(doc)
        form = _harness_form(task, doc, choices)
        rights = rights_of(task, doc, choices)
    except Exception as error:  # a task's own code decides what is raised
        raise BrokenItem(f"lm-eval cannot ask it: {type(error).__name__}") from None
    if not rights:
        raise BrokenItem("answer is not among the choices")
    only = ""
    try:
        split = split_prompt(prompt, choices, doc) if isinstance(prompt, str) else ("", choices)
    except BrokenItem as reason:
        split, only = (prompt, choices), str(reason)
    question, texts = split or (prompt, choices)
    only = only or (LETTERS_ALONE if split is None else NO_QUESTION if not question else "")
    if not only and (len(set(texts)) < len(texts) or not all(texts)):
        only = _SAME if all(texts) else "choices are not a list of texts"
    if len(texts) > len(LETTERS):
        only = f"number of choices is not within 2 to {len(LETTERS)}"
    texts = tuple(text.strip() for text in texts) if not only else texts
    lang = lang or language_of(question, *texts)
    several = rights if len(rights) > 1 else ()
    return Item(id, lang, question, texts, rights[0], several, subject, "", form, only)


def _harness_form(task: Any, doc: Doc, choices: tuple[str, ...]) -> HarnessForm:
    """Collect the requests of lm-eval's harness, without a chat template."""
    prefix, shots = task.doc_to_prefix(doc), int(task.config.num_fewshot or 0)
    description = task.resolve_field(doc, task.config.description) or ""
    plain = task.fewshot_context(doc, 0, gen_prefix=prefix)
    whole = task.fewshot_context(doc, shots, gen_prefix=prefix) if shots else plain
    several = isinstance(plain, list)  # as many prompts as options, with one continuation
    prompts = tuple(text.removeprefix(description) for text in (plain if several else [plain]))
    first = whole[0] if several else whole
    continuations = (str(task.doc_to_target(doc)),) * len(choices) if several else choices
    head = first.removesuffix(prompts[0]) if prompts[0] else first
    return HarnessForm(
        prompts, continuations, task.config.target_delimiter, head, description, are_labels(continuations))


def rights_of(task: Any, doc: Doc, choices: Sequence[str]) -> tuple[int, ...]:
    """Find the places of the right options: the task's target names them, or, where a function of the task judges,
    they are those for which it gives more than half of an accuracy."""
    places = range(len(choices))
    if callable(task.config.process_results):
        sure = [[(0.0 if other == place else -100.0, False) for other in places] for place in places]
        return tuple(place for place in places if task.process_results(doc, sure[place]).get("acc", 0) > 0.5)
    gold = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    golds = gold if isinstance(gold, list) else [gold]
    found = [choices.index(each) if isinstance(each, str) and each in choices else each for each in golds]
    return tuple(sorted({each for each in found if isinstance(each, int) and 0 <= each < len(choices)}))


def lm_eval_items(name: str, limit: int | None, *, include_path: str = "", examples: bool = False,
                  **about: Any) -> Items:
    """Read the items of a task of lm-eval, or of all tasks of a group, at most `limit` of each; with `examples` those
    that its few-shot examples come from (none where these are the items themselves). `about`: as `items_of`.

    Raises InputError: lm-eval does not know it, or it is not of multiple choice; StepError: its data does not load."""
    tasks = _lm_eval_tasks(name, include_path, stamp(include_path))
    wrong = {each: str(task.OUTPUT_TYPE) for each, task in tasks.items()
             if task.OUTPUT_TYPE != "multiple_choice" or not hasattr(task, "doc_to_choice")}
    if len(wrong) == len(tasks):
        first, kind = next(iter(wrong.items()), (name, "none"))
        raise InputError(f"lm-eval's task {first} is of type {kind}: variants are made of multiple_choice tasks of "
                         "YAML alone; name it in benchmarks.lm_eval to run it as it is")
    parts = [Items([], Counter({f"task {each} is of type {kind}": 1 for each, kind in wrong.items()}))]
    for each, task in tasks.items():
        if each not in wrong and not examples:
            task.set_fewshot_seed(1234)  # each reading draws the same examples
            parts.append(items_of(task, task.eval_docs, name=each, limit=limit, **about))
        elif each not in wrong and (docs := task.fewshot_docs()) is not None and _first(docs) != _first(task.eval_docs):
            parts.append(items_of(task, docs, name=f"{each}/shots", limit=limit, **about))
    found = merged(parts)
    if not found.items and not examples:
        raise InputError(f"lm-eval's task {name}: no usable item; documents left out: {dict(found.left_out)}")
    return found


@lru_cache(maxsize=16)
def _lm_eval_tasks(name: str, include_path: str, changed: Stamp) -> Mapping[str, Any]:
    try:
        tasks: Mapping[str, Any] = load(name, include_path)["tasks"]
    except Exception as error:  # a task's own code and data decide what is raised
        why, unknown = load_error(name, error)
        if unknown:
            raise InputError(f"lm_eval is {name!r}: {why}; `lm_eval ls tasks` lists those of the package, and "
                             "include_path adds a folder of YAML") from None  # fmt: skip
        raise StepError(f"lm-eval cannot load {name}: {why}; its data is read from Hugging Face, or from its cache "
                        "on this machine (HF_HOME): try again where there is a network") from None  # fmt: skip
    return tasks


def _first(docs: Any) -> Any:
    return next(iter(docs), None)
