"""A checkpoint asked through vLLM, where that is installed: for models that need its kernels or several GPUs each.

vLLM schedules and keeps prefixes itself, so requests are neither joined nor packed here. Scores are the engine's
`prompt_logprobs`; in another precision or with other kernels than transformers' they differ in their last digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from argosy.errors import InputError
from argosy.evaluation.cache import Known, model_directory
from argosy.evaluation.checkpoint import Checkpoint
from argosy.evaluation.encoder import load_encoder
from argosy.evaluation.generation import ends_of
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.planning import Limits
from argosy.evaluation.rows import Tokens, Wanted
from argosy.evaluation.score import Scored
from argosy.evaluation.scoring import Scorer
from argosy.evaluation.work import Work

if TYPE_CHECKING:
    import torch

_AT_ONCE = 32  # times batch_tokens that the engine is given at a time, to schedule as it likes


class VLLMScorer(Scorer):
    """The Scorer over an engine. Args as Scorer's; `engine`: a vllm.LLM."""

    def __init__(
        self, engine: Any, vocabulary: int, max_length: int, batch_tokens: int, work: Work | None, known: Known | None
    ) -> None:
        self.engine, self.vocabulary = engine, vocabulary
        self.max_length = max_length - 2  # the engine wants room for the last token and one more
        self.batch_tokens = batch_tokens
        self.work, self.known = work or Work(), known or Known()

    @property
    def branching(self) -> bool:
        """No: the engine keeps prefixes."""
        return False

    def compute(self, task: tuple[Tokens, Sequence[Sequence[Wanted]]]) -> list[list[list[Any]]]:
        """As Scorer's."""
        asked = [each for row in task[1] for each in row]
        prompts = [(*each.tokens, each.targets[-1]) for each in asked]
        outputs = self._ask(prompts, temperature=0, max_tokens=1, prompt_logprobs=1, detokenize=False)
        return [_scored(each, found.prompt_logprobs).dump() for each, found in zip(asked, outputs, strict=True)]

    def next_token(self, contexts: Sequence[Tokens]) -> Iterator[tuple[int, torch.Tensor]]:
        """As Scorer's; the engine gives the log-probability of every token."""
        import torch

        chosen = [index for index, context in enumerate(contexts) if context]
        prompts = [contexts[index][-self.max_length :] for index in chosen]
        self.cut += sum(len(context) > self.max_length for context in contexts)
        outputs = self._ask(prompts, temperature=0, max_tokens=1, logprobs=self.vocabulary, detokenize=False)
        for index, found in zip(chosen, outputs, strict=True):
            values = torch.full((self.vocabulary,), -torch.inf)
            for token, logprob in found.outputs[0].logprobs[0].items():
                values[token] = logprob.logprob
            yield index, values

    def made(self, prompts: Sequence[Tokens], stops: Sequence[str], max_tokens: int, ends: frozenset[int]) -> list[Any]:
        """The tokens after each prompt, greedily."""
        outputs = self._ask(prompts, temperature=0, max_tokens=max_tokens, stop=list(stops), stop_token_ids=[*ends])
        return [[token for token in found.outputs[0].token_ids if token not in ends] for found in outputs]

    def _ask(self, prompts: Sequence[Tokens], **sampling: Any) -> list[Any]:
        from vllm import SamplingParams, TokensPrompt  # type: ignore[import-not-found]

        asked = [TokensPrompt(prompt_token_ids=list(prompt)) for prompt in prompts]
        found: list[Any] = self.engine.generate(asked, SamplingParams(**sampling), use_tqdm=False)
        return found

    def _limits(self) -> Limits:
        # No limit of logits: the engine keeps those of a position at a time.
        return Limits(self.batch_tokens * _AT_ONCE, self.max_length, 0, None, self.batch_tokens * _AT_ONCE)


class VLLMLanguageModel(LanguageModel):
    """A LanguageModel whose scores and texts come from vLLM. `model` has the configuration alone."""

    @classmethod
    def open(
        cls, checkpoint: Checkpoint, batch_tokens: int, work: Work, cache: Path | None, processes: int, seed: int
    ) -> VLLMLanguageModel:
        """Load an export. processes: GPUs that one model is spread over.

        Raises:
            InputError: vLLM is not installed, or it or transformers cannot load the checkpoint.
        """
        try:
            import vllm
        except ImportError:
            raise InputError("backend is vllm, which is not installed: `pip install vllm` on a machine with a GPU, or "
                             "take backend: transformers") from None
        from transformers import AutoConfig

        try:
            encoder = load_encoder(checkpoint.path)
            config: Any = AutoConfig.from_pretrained(checkpoint.path)
            vocabulary = int(config.get_text_config().vocab_size)
            engine: Any = vllm.LLM(model=str(checkpoint.path), seed=seed, tensor_parallel_size=processes,
                                   max_logprobs=vocabulary, enable_prefix_caching=True)  # fmt: skip
        except Exception as error:  # whatever is wrong with its files, it is this checkpoint that is wrong
            raise InputError(f"vLLM cannot load the checkpoint {checkpoint.path}: {error}") from error
        about = ("vllm", str(vllm.__version__), str(processes))
        known = Known(model_directory(cache, checkpoint.path, about)) if cache else None
        made = cls.__new__(cls)
        made._engine, made._vocabulary = engine, vocabulary
        made.__init__(_Configured(config), encoder, batch_tokens, work, known)  # type: ignore[misc]
        return made

    _engine: Any
    _vocabulary: int

    def _make_scorer(self, batch_tokens: int, work: Work | None, known: Known | None) -> Scorer:
        return VLLMScorer(self._engine, self._vocabulary, self.max_length, batch_tokens, work, known)

    def compute(self, kind: str, task: Any) -> Any:
        """As LanguageModel's."""
        if kind == "scores":
            return self.scorer.compute(task)
        assert isinstance(self.scorer, VLLMScorer)
        prompts, stops, max_tokens = task
        return self.scorer.made(prompts, stops, max_tokens, ends_of(self.model, self.tokenizer))


class _Configured:
    """What of a model is asked for beside its outputs."""

    def __init__(self, config: Any) -> None:
        self.config = config


def _scored(wanted: Wanted, logprobs: Sequence[Any]) -> Scored:
    """Of the targets, from the engine's {token: logprob} of each token of the prompt given those before it."""
    first = wanted.first + 1
    each = [logprobs[first + at][token] for at, token in enumerate(wanted.targets)]
    return Scored(np.array([found.logprob for found in each], dtype=np.float64),
                  np.array([found.rank == 1 for found in each], dtype=np.bool_))  # fmt: skip
