"""Documents of lm-eval's multiple-choice tasks as items, so that every variant can be made of them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from argosy.core.errors import InputError, StepError
from evals.extract.listed import LETTERS_ALONE, are_labels, split_prompt
from evals.fields import language_of
from evals.items import LETTERS, BrokenItem, HarnessForm, Item, Items, merged
from evals.lm_eval.load import Stamp, load, load_error, stamp
from evals.reading import collected
from evals.task import TaskSpec

Doc = Mapping[str, Any]
NO_QUESTION = "has no question apart from its options"
_SAME = "two choices are the same"


def items_of(
    task: Any, docs: Iterable[Doc], *, lang: str, subject: str, name: str, limit: int | None, mix: bool | None = None
) -> Items:
    """Turn documents into items, at most `limit`; one that lm-eval cannot ask, or without a right option, is left out.

    Args:
        task: a ConfigurableTask of type multiple_choice.
        lang, subject: of all; "": zh where there are Chinese characters, and the task's name.
        name: the beginning of ids.
        mix: see `evals.reading.collected`."""

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
        prompts, continuations, task.config.target_delimiter, head, description, are_labels(continuations)
    )


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


def lm_eval_items(spec: TaskSpec, limit: int | None, *, examples: bool = False) -> Items:
    """Read the items of a task of lm-eval, or of all tasks of a group, at most `limit` of each; with `examples` those
    that its few-shot examples come from (none where these are the items themselves).

    Raises InputError: lm-eval does not know it, or it is not of multiple choice; StepError: its data cannot be
    loaded."""
    tasks = _lm_eval_tasks(spec.lm_eval, spec.include_path, stamp(spec.include_path))
    wrong = {name: str(task.OUTPUT_TYPE) for name, task in tasks.items()
             if task.OUTPUT_TYPE != "multiple_choice" or not hasattr(task, "doc_to_choice")}
    if len(wrong) == len(tasks):
        name, kind = next(iter(wrong.items()), (spec.lm_eval, "none"))
        raise InputError(f"lm-eval's task {name} is of type {kind}: variants are made of multiple_choice tasks of YAML "
                         "alone; name it in benchmarks.lm_eval to run it as it is")  # fmt: skip
    about: Any = {"lang": spec.lang, "subject": spec.subject, "mix": spec.mixed}
    parts = [Items([], Counter({f"task {name} is of type {kind}": 1 for name, kind in wrong.items()}))]
    for name, task in tasks.items():
        if name not in wrong and not examples:
            task.set_fewshot_seed(1234)  # each reading draws the same examples
            parts.append(items_of(task, task.eval_docs, name=name, limit=limit, **about))
        elif name not in wrong and (docs := task.fewshot_docs()) is not None and _first(docs) != _first(task.eval_docs):
            parts.append(items_of(task, docs, name=f"{name}/shots", limit=limit, **about))
    found = merged(parts)
    if not found.items and not examples:
        raise InputError(f"lm-eval's task {spec.lm_eval}: no usable item; documents left out: {dict(found.left_out)}")
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
