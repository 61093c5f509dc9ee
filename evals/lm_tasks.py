"""Items and a chain of variants as a task of lm-eval, for its command line and for our runner alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.filters import build_filter_ensemble

from argosy.evaluation.language_model import answer_start
from argosy.statistics.intervals import Estimate
from evals.lm_questions import questions as questions_of
from evals.metrics import LOWER_IS_BETTER, METRICS, Answer, answer, generated, metric_names, metrics
from evals.question import Question

_OF_ALL = ("position_bias", "acc_pride")  # of all answers at once, so without a standard error of lm-eval's kind
# Means over questions; others are over items.
_OF_QUESTIONS = ("acc", "acc_norm", "acc_bytes", "mass", "unparsable", "chance")


class VariantTask(Task):  # type: ignore[misc]
    """A task whose documents are items, each with the questions that a chain of variants makes of it.

    From YAML (`class: !function evals.lm_tasks.VariantTask`): what its `metadata` may hold is in evals/lm_questions.py;
    `--metadata '{"data": "DIR"}'` adds to it. From Python: `of(name, questions)`. Standard errors are lm-eval's, over
    items; `answers` has what was answered, by the question's id.
    """

    VERSION = 2
    OUTPUT_TYPE = "multiple_choice"

    def __init__(self, config: dict[str, Any]) -> None:
        self.left_out: Counter[str] = Counter()
        self.answers: dict[str, Answer] = {}
        given: list[Question] | None = config.pop("questions", None)
        if given is None:
            given, self.left_out = questions_of(str(config.get("task")), config.get("metadata") or {})
        self._questions = given
        self._docs = _documents(given)
        self._each = 1.0  # questions of a document, in the mean
        self._names = metric_names(given)
        # What Task.__init__ sets; itself it takes no config (it passes the mapping as the task's name).
        fields = {key: value for key, value in config.items() if key in TaskConfig.__dataclass_fields__}
        self._config = TaskConfig(**{**fields, "output_type": self.OUTPUT_TYPE, "num_fewshot": 0})
        self._training_docs = self._fewshot_docs = None
        self._instances: list[Instance] | None = None
        self._filters = [build_filter_ensemble("none", [["take_first", None]])]

    @classmethod
    def of(cls, name: str, questions: Sequence[Question]) -> VariantTask:
        """A task of questions that are already made."""
        return cls({"task": name, "questions": list(questions)})

    def download(self, *_: Any, **__: Any) -> None:
        """The questions are there already."""

    def has_training_docs(self) -> bool:
        """No."""
        return False

    def has_validation_docs(self) -> bool:
        """No."""
        return False

    def has_test_docs(self) -> bool:
        """Yes."""
        return True

    def test_docs(self) -> list[dict[str, Any]]:
        """A document an item: its id, and the ids and places of its questions."""
        return self._docs

    def questions(self, doc: dict[str, Any]) -> list[Question]:
        """The questions of a document."""
        return [self._questions[number] for number in doc["numbers"]]

    def doc_to_text(self, doc: dict[str, Any]) -> str:
        """The prompt of its first question."""
        return self.questions(doc)[0].prompt

    def doc_to_target(self, doc: dict[str, Any]) -> str:
        """The right answer to it."""
        question = self.questions(doc)[0]
        if question.generation is not None:
            return question.before + question.generation.answer
        return question.before + question.continuations[question.gold]

    def build_all_requests(
        self,
        *,
        limit: int | None = None,
        samples: list[int] | None = None,
        rank: int = 0,
        world_size: int = 1,
        apply_chat_template: bool = False,
        chat_template: Callable[..., str] | None = None,
        **_: Any,
    ) -> None:
        """All requests at once, without lm-eval's cache of them: they take less time to make than to read."""
        template = chat_template if apply_chat_template else None
        start = answer_start(template) if template else None
        chosen = list(self.doc_iterator(rank=rank, limit=limit, world_size=world_size, samples=samples))
        every = list(self.doc_iterator(rank=0, limit=limit, world_size=1, samples=samples))  # of all ranks
        self._each = sum(_asked(self.questions(doc)) for _, doc in every) / max(1, len(every))
        self._instances = [
            request
            for number, doc in chosen
            for request in self.construct_requests(doc, template, before=start, metadata=(self.config.task, number, 1))
        ]

    def fewshot_context(self, doc: dict[str, Any], *_: Any, **__: Any) -> str:
        """The prompt, with the examples that a variant put there."""
        return self.doc_to_text(doc)

    def construct_requests(
        self, doc: dict[str, Any], ctx: Callable[..., str] | None, **kwargs: Any
    ) -> list[Instance]:
        """A request a continuation, after what stands `before` an answer: the question's, or the chat template's; of
        a generated answer one request.

        Args:
            ctx: the chat template where there is one: prompts are a user's turn in it.
        """
        requests: list[tuple[str, tuple[Any, ...]]] = []
        for question in self.questions(doc):
            requests += _requests(question, ctx, kwargs.get("before"))
        return [
            Instance(kind, doc, arguments, index, metadata=kwargs["metadata"])
            for index, (kind, arguments) in enumerate(requests)
        ]

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """The value of each metric; nothing where a score is not a number."""
        found: list[Answer] = []
        left = iter(results)
        for question in self.questions(doc):
            if question.generation is not None:
                read: Answer | None = generated(question, next(left))
            else:
                read = answer(question, [next(left)[0] for _ in question.continuations])
            if read is None:
                self.left_out["score is not a number"] += 1
            else:
                self.answers[question.id] = read
                found.append(read)
        return self._values(found) if found else {}

    def _values(self, found: list[Answer]) -> dict[str, Any]:
        own = metrics(found)
        if "acc" not in own:  # questions for calibration alone
            return {}
        values: dict[str, Any] = {}
        for name in self._names:
            value = own[name].value if name in own else _alone(name, found, own)
            values[name] = value * _asked([a.question for a in found]) / self._each if name in _OF_QUESTIONS else value
        told = [[a.question.id, list(a.scores) if a.text is None else a.text] for a in found]
        return values | {name: told for name in _OF_ALL if name in values}

    def aggregation(self) -> dict[str, Callable[[list[Any]], float]]:
        """The mean over documents, or what is of all answers at once: those of every process of lm-eval's, each of
        which answers some of the documents."""

        def of(name: str) -> Callable[[list[Any]], float]:
            def value(documents: list[list[list[Any]]]) -> float:
                by_id = {question.id: question for question in self._questions}
                told = [_answer(by_id[question], said) for document in documents for question, said in document]
                found = metrics([each for each in told if each is not None])
                return found[name].value if name in found else math.nan

            return value

        return {name: of(name) if name in _OF_ALL else mean for name in METRICS}

    def higher_is_better(self) -> dict[str, bool]:
        """All but the position bias and the like."""
        return {name: name not in LOWER_IS_BETTER for name in METRICS}


def _answer(question: Question, said: str | Sequence[float]) -> Answer | None:
    """From what was generated, or the scores."""
    return generated(question, said) if isinstance(said, str) else answer(question, said)


def _alone(name: str, found: Sequence[Answer], own: dict[str, Estimate]) -> float:
    """A metric that other items have and this one has not: it has one question, or one right option."""
    if name == "mass":
        return float(mean([a.mass for a in found if not a.question.calibration]))
    if name == "acc_bytes" and "acc_norm" in own:  # its texts are ASCII
        return own["acc_norm"].value
    return 1.0 if name == "consistency" else own["acc"].value


def _asked(questions: Sequence[Question]) -> int:
    return sum(not question.calibration for question in questions)


def _documents(questions: Sequence[Question]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for number, question in enumerate(questions):
        doc = found.setdefault(question.item, {"id": question.item, "questions": [], "numbers": []})
        doc["questions"].append(question.id)
        doc["numbers"].append(number)
    return list(found.values())


def _requests(
    question: Question, template: Callable[..., str] | None, start: str | None
) -> list[tuple[str, tuple[Any, ...]]]:
    """(type of request, arguments), as lm-eval's models take them."""

    def context(prompt: str) -> str:
        return prompt if template is None else template([{"role": "user", "content": prompt}])

    if question.generation is not None:
        about = question.generation
        options = {"until": list(about.stops), "max_gen_toks": about.max_tokens, "do_sample": False}
        return [("generate_until", (context(question.prompt), options))]
    before = question.before if start is None else start
    return [("loglikelihood", (context(prompt), before + text)) for prompt, text in question.requests]
