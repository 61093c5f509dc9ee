"""Items and a chain of variants as a task of lm-eval, for its command line and for our runner alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.filters import build_filter_ensemble

from argosy.errors import InputError
from argosy.evaluation.language_model import answer_start
from evals.items import read_items
from evals.metrics import Answer, answer, metrics
from evals.question import SEPARATOR, Question
from evals.variants import parse_chain

METRICS = ("acc", "acc_norm", "acc_all", "consistency", "acc_averaged", "position_bias")


class VariantTask(Task):  # type: ignore[misc]
    """Multiple choice whose documents are the questions that a chain of variants makes.

    From YAML (`class: !function evals.lm_tasks.VariantTask`) its `metadata` holds: `items` (a JSONL or CSV file,
    or a list of them; `--metadata '{"items": "..."}'` gives it on the command line), `variant` (a name or a
    chain), `seed` and `limit`. From Python: `of(name, questions)`.
    """

    VERSION = 1
    OUTPUT_TYPE = "multiple_choice"

    def __init__(self, config: dict[str, Any]) -> None:
        self.left_out: Counter[str] = Counter()
        self.answers: dict[str, Answer] = {}
        self._questions: list[Question] = config.pop("questions", None) or self._from_metadata(config)
        self._docs = [{"id": question.id, "number": n} for n, question in enumerate(self._questions)]
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

    def _from_metadata(self, config: dict[str, Any]) -> list[Question]:
        about = config.get("metadata") or {}
        if not about.get("items"):
            raise InputError(f"task {config.get('task')}: give its items: --metadata '{{\"items\": \"FILE.jsonl\"}}'")
        paths = [about["items"]] if isinstance(about["items"], str) else about["items"]
        chain = parse_chain(str(config.get("task")), about.get("variant", "plain"))
        questions: list[Question] = []
        for path in paths:
            found = read_items(Path(path), about.get("limit"))
            made, unmade = chain.all_questions(found.items, about.get("seed", 0))
            questions += made
            self.left_out += found.left_out + unmade
        return questions

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
        """A document a question."""
        return self._docs

    def question(self, doc: dict[str, Any]) -> Question:
        """The question of a document."""
        found: Question = self._questions[doc["number"]]
        return found

    def doc_to_text(self, doc: dict[str, Any]) -> str:
        """Its prompt."""
        return self.question(doc).prompt

    def doc_to_target(self, doc: dict[str, Any]) -> str:
        """Its right continuation."""
        question = self.question(doc)
        return SEPARATOR[question.lang] + question.continuations[question.gold]

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
        before = answer_start(template) if template else None
        documents = self.doc_iterator(rank=rank, limit=limit, world_size=world_size, samples=samples)
        self._instances = [
            request
            for number, doc in documents
            for request in self.construct_requests(
                doc,
                self.fewshot_context(doc, chat_template=template),
                before=before,
                metadata=(self.config.task, number, 1),
            )
        ]

    def fewshot_context(
        self, doc: dict[str, Any], chat_template: Callable[..., str] | None = None, **_: Any
    ) -> str:
        """The prompt, as a user's turn where lm-eval applies a chat template."""
        prompt = self.doc_to_text(doc)
        return prompt if chat_template is None else chat_template([{"role": "user", "content": prompt}])

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> list[Instance]:
        """A request a continuation, after what stands `before` an answer: the language's, or the chat template's."""
        question = self.question(doc)
        before = kwargs.get("before")
        before = SEPARATOR[question.lang] if before is None else before
        return [
            Instance("loglikelihood", doc, (ctx, before + text), index, metadata=kwargs["metadata"])
            for index, text in enumerate(question.continuations)
        ]

    def process_results(self, doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Answer]:
        """The answer, for every metric; nothing where a score is not a number."""
        question = self.question(doc)
        found = answer(question, [score for score, _ in results])
        if found is None:
            self.left_out["score is not a number"] += 1
            return {}
        self.answers[question.id] = found
        return dict.fromkeys(self._metric_names(), found)

    def _metric_names(self) -> list[str]:
        several = len({question.item for question in self._questions}) < len(self._questions)
        texts = any(not question.labelled for question in self._questions)
        wanted = {"acc": True, "acc_norm": texts}
        return [name for name in METRICS if wanted.get(name, several)]

    def aggregation(self) -> dict[str, Callable[[list[Answer]], float]]:
        """The value of each metric over all answers."""

        def of(name: str) -> Callable[[list[Answer]], float]:
            return lambda answers: metrics(answers)[name].value if name in metrics(answers) else math.nan

        return {name: of(name) for name in METRICS}

    def higher_is_better(self) -> dict[str, bool]:
        """All but the position bias."""
        return {name: name != "position_bias" for name in METRICS}


