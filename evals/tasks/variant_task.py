"""Items and a chain of variants as a task of lm-eval, for its command line and our runner; the YAML's `metadata`."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.filters import build_filter_ensemble

from argosy.core.errors import InputError
from argosy.core.statistics.intervals import Estimate
from argosy.evidence.results.suite import load_suite
from argosy.model.infer.rows import NO_NUMBER
from argosy.model.weights.chat import answer_start
from evals.answers import Answer, answer, voted
from evals.chain import parse_chain
from evals.metrics import METRICS, metric_names, metrics
from evals.question import Question
from evals.section import Benchmarks
from evals.task import TaskSpec, read_examples, read_task

_FIELDS = ("format", "fields", "mixed", "shots", "lang", "subject", "encoding", "index_from", "lm_eval", "include_path")


def questions_of(name: str, about: Mapping[str, Any]) -> tuple[list[Question], Counter[str]]:
    """Make the questions, and count the items left out by reason.

    `name`: of the lm-eval task. `about`: `suite` (a name in evals/suites, or a YAML), its task where it has several,
    or `items` (a file or several, with `format` and other fields of TaskSpec), or `lm_eval` (a task of lm-eval's
    own); `variant` (one of that suite's, or a chain), `data`, `seed`, `limit` (items of each file), `category` (one
    of the task's). InputError where none is given, or one is wrong."""
    spec, variants = _task(name, about)
    data = Path(about.get("data") or ".").expanduser()
    found = read_task(spec, data, about.get("limit"))
    if (category := about.get("category")) and category not in spec.categories:
        there = ", ".join(spec.categories) or "none"
        raise InputError(f"task {name}: category is {category!r}; its task has {there}")
    items = [item for item in found.items if not category or category in spec.groups(item)]
    variant = about.get("variant", "plain")
    known = isinstance(variant, str) and variant in variants
    chain = parse_chain(variant, variants[variant]) if known else parse_chain(name, variant)
    made, unmade = chain.all_questions(items, int(about.get("seed", 0)), read_examples(spec, data, chain))
    if not made:
        raise InputError(f"task {name}: no item can be asked in this variant: {dict(found.left_out + unmade)}")
    return made, found.left_out + unmade


def _task(name: str, about: Mapping[str, Any]) -> tuple[TaskSpec, Mapping[str, Any]]:
    if about.get("items") or about.get("lm_eval"):
        fields = {field: about[field] for field in _FIELDS if field in about}
        items = about.get("items", [])
        return TaskSpec.model_validate({"files": [items] if isinstance(items, str) else items, **fields}), {}
    if not about.get("suite"):
        raise InputError(f"task {name}: give its items: --metadata '{{\"items\": \"FILE.jsonl\"}}', or a suite, or "
                         "lm_eval (a task of its own)")  # fmt: skip
    given = str(about["suite"])
    section = load_suite(given).section("benchmarks", Benchmarks)
    wanted = str(about.get("task") or next(iter(section.tasks), ""))
    if wanted not in section.tasks:
        raise InputError(f"task {name}: suite {given} has no task {wanted!r}; it has {', '.join(section.tasks)}")
    return section.tasks[wanted], section.tasks[wanted].chains(section.variants)


# Over all answers at once, so without a standard error of lm-eval's kind.
_OVER_ALL = ("position_bias", "acc_pride", "acc_averaged")
_OVER_QUESTIONS = ("acc", "acc_norm", "acc_bytes", "mass", "unparsable", "chance")  # means; the others are over items


class VariantTask(Task):  # type: ignore[misc]
    """A task whose documents are items, each with the questions that a chain of variants makes of it.

    From YAML: `class: !function evals.tasks.variant_task.VariantTask`, with the `metadata` that this
    module describes; `--metadata '{"data": "DIR"}'` adds to it. From Python: `of(name, questions)`. Standard errors are
    lm-eval's, over items; `answers` has the answers by the question's id."""

    VERSION = 2
    OUTPUT_TYPE = "multiple_choice"

    def __init__(self, config: dict[str, Any]) -> None:
        self.left_out: Counter[str] = Counter()
        self.answers: dict[str, Answer] = {}
        given: list[Question] | None = config.pop("questions", None)
        if given is None:
            given, self.left_out = questions_of(str(config.get("task")), config.get("metadata") or {})
        self._questions = {question.id: question for question in given}
        self._docs = _documents(given)
        self._each = 1.0  # questions of a document, in the mean
        self._names = metric_names(given)
        # Fields that Task.__init__ sets; itself it takes no config (it passes the mapping as the task's name).
        fields = {key: value for key, value in config.items() if key in TaskConfig.__dataclass_fields__}
        self._config = TaskConfig(**{**fields, "output_type": self.OUTPUT_TYPE, "num_fewshot": 0})
        self._training_docs = self._fewshot_docs = None
        self._instances: list[Instance] | None = None
        self._filters = [build_filter_ensemble("none", [["take_first", None]])]

    @classmethod
    def of(cls, name: str, questions: Sequence[Question]) -> "VariantTask":
        """Make a task of questions that exist already."""
        return cls({"task": name, "questions": list(questions)})

    def download(self, *_: Any, **__: Any) -> None:
        """Load nothing: the questions exist already."""

    def has_training_docs(self) -> bool:
        return False

    def has_validation_docs(self) -> bool:
        return False

    def has_test_docs(self) -> bool:
        return True

    def test_docs(self) -> list[dict[str, Any]]:
        """List a document an item: its id, and the ids of its questions."""
        return self._docs

    def questions(self, doc: dict[str, Any]) -> list[Question]:
        return [self._questions[name] for name in doc["questions"]]

    def doc_to_text(self, doc: dict[str, Any]) -> str:
        return self.questions(doc)[0].prompt

    def doc_to_target(self, doc: dict[str, Any]) -> str:
        """Return the right answer to it."""
        question = self.questions(doc)[0]
        about = question.generation
        return question.before + (about.answer if about else question.continuations[question.gold])

    def build_all_requests(
        self, *, limit: int | None = None, samples: list[int] | None = None, rank: int = 0, world_size: int = 1,
        apply_chat_template: bool = False, chat_template: Callable[..., str] | None = None, **_: Any,
    ) -> None:  # fmt: skip
        """Make all requests at once, without lm-eval's cache of them: they take less time to make than to read."""
        template = chat_template if apply_chat_template else None
        start = answer_start(template) if template else None
        chosen = list(self.doc_iterator(rank=rank, limit=limit, world_size=world_size, samples=samples))
        every = list(self.doc_iterator(rank=0, limit=limit, world_size=1, samples=samples))  # of all ranks
        self._each = sum(_counted(self.questions(doc)) for _, doc in every) / max(1, len(every))
        self._instances = [
            request
            for number, doc in chosen
            for request in self.construct_requests(doc, template, before=start, metadata=(self.config.task, number, 1))]

    def fewshot_context(self, doc: dict[str, Any], *_: Any, **__: Any) -> str:
        """Return the prompt, with the examples that a variant put there."""
        return self.doc_to_text(doc)

    def construct_requests(self, doc: dict[str, Any], ctx: Callable[..., str] | None, **kwargs: Any) -> list[Instance]:
        """Make a request a continuation, after the text `before` an answer, the question's or the chat template's; one
        request for a generated answer. `ctx`: the chat template where there is one: prompts are a user's turn in it."""
        requests = [each for question in self.questions(doc) for each in _requests(question, ctx, kwargs.get("before"))]
        return [
            Instance(kind, doc, arguments, index, metadata=kwargs["metadata"])
            for index, (kind, arguments) in enumerate(requests)]

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """Give the value of each metric; nothing where a score is not a number."""
        found: list[Answer] = []
        left = iter(results)
        for question in self.questions(doc):
            scores = [next(left)[0] for _ in question.continuations]  # none where the answer is generated
            about = question.generation
            read = _answer(question, [next(left) for _ in range(about.samples)] if about else scores)
            if read is None:
                self.left_out[NO_NUMBER] += 1
            else:
                self.answers[question.id] = read
                found.append(read)
        return self._values(found) if found else {}

    def _values(self, found: list[Answer]) -> dict[str, Any]:
        own = metrics(found)
        if "acc" not in own:  # questions for calibration alone
            return {}
        values: dict[str, Any] = {}
        weight = _counted([a.question for a in found]) / self._each
        for name in self._names:
            value = own[name].value if name in own else _missing(name, found, own)
            values[name] = value * weight if name in _OVER_QUESTIONS else value
        raw = [[a.question.id, list(a.scores) if a.text is None else [each.text for each in a.samples or (a,)]]
               for a in found]  # fmt: skip
        return values | {name: raw for name in _OVER_ALL if name in values}

    def aggregation(self) -> dict[str, Callable[[list[Any]], float]]:
        """Take the mean over documents, or measure all answers at once: those of every process of lm-eval, each of
        which answers some of the documents."""

        def over_all(name: str) -> Callable[[list[Any]], float]:
            def value(documents: list[list[list[Any]]]) -> float:
                read = [_answer(self._questions[id], raw) for document in documents for id, raw in document]
                found = metrics([each for each in read if each is not None])
                return found[name].value if name in found else math.nan

            return value

        return {name: over_all(name) if name in _OVER_ALL else mean for name in METRICS}

    def higher_is_better(self) -> dict[str, bool]:
        """Say which way the metrics are better, as METRICS declares it."""
        return {name: kind.better != "lower" for name, kind in METRICS.items()}


def _answer(question: Question, raw: Sequence[Any]) -> Answer | None:
    return voted(question, raw) if question.generation else answer(question, raw)


def _missing(name: str, found: Sequence[Answer], own: dict[str, Estimate]) -> float:
    """Value a metric that other items have and this one has not: it has one question, or one right option."""
    if name == "mass":
        return float(mean([a.mass for a in found if not a.question.calibration]))
    if name == "acc_bytes" and "acc_norm" in own:  # its texts are ASCII
        return own["acc_norm"].value
    return 1.0 if name == "consistency" else own["acc"].value


def _counted(questions: Sequence[Question]) -> int:
    return sum(not question.calibration for question in questions)


def _documents(questions: Sequence[Question]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for question in questions:
        found.setdefault(question.item, {"id": question.item, "questions": []})["questions"].append(question.id)
    return list(found.values())


def _requests(question: Question, template: Callable[..., str] | None,
              start: str | None) -> list[tuple[str, tuple[Any, ...]]]:
    """List (type of request, arguments), as lm-eval's models take them."""

    def context(prompt: str) -> str:
        return prompt if template is None else template([{"role": "user", "content": prompt}])

    if (about := question.generation) is not None:
        options = {"until": list(about.stops), "max_gen_toks": about.max_tokens, "do_sample": bool(about.temperature)}
        if about.temperature:
            options["temperature"] = about.temperature
        return [("generate_until", (context(question.prompt), dict(options)))] * about.samples
    before = question.before if start is None else start
    return [("loglikelihood", (context(prompt), before + text)) for prompt, text in question.requests]
