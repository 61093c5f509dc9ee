"""The backends that compute scores, transformers or vLLM, and the model of a checkpoint opened with one of them.

vLLM schedules and keeps prefixes itself, so requests are neither joined nor packed for it. Its scores are the engine's
`prompt_logprobs`; in another precision or with other kernels than transformers' they differ in their last digits."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from argosy.core.errors import InputError
from argosy.core.lazy import torch
from argosy.model.infer.decode import Answers, Decoder, Decoding
from argosy.model.infer.encoder import Encoder, load_encoder
from argosy.model.infer.model import LanguageModel, load_helper
from argosy.model.infer.plan import Limits
from argosy.model.infer.rows import Query, Tokens, TokenScores
from argosy.model.infer.scorer import Scorer
from argosy.model.infer.work import Helper, Journal, ScoreCache, Work, model_directory
from argosy.model.weights.adapters.files import is_adapter, served_adapter
from argosy.model.weights.checkpoint import Checkpoint
from argosy.model.weights.load import check_files
from argosy.model.weights.pretrained import load_config, loading

JOURNAL = "scores"  # below a step's `state`
KNOWN = "known"  # beside it: scores for a retry of the step, whose batches will be others
_AT_ONCE = 32  # times batch_tokens that the engine is given at a time, to schedule as it likes


@contextmanager
def open_model(checkpoint: Checkpoint, state: Path, *, seed: int = 0, threads: int = 1, batch_tokens: int = 8192,
               backend: str = "transformers", processes: int = 1, cache: str = "",
               dtype: str = "weights") -> Iterator[LanguageModel]:
    """Open the model of a checkpoint; processes that help it end with the block. Args as EvaluateConfig has them.

    `state`: a directory that outlives a kill; batches that are there are not computed again. `seed`: of torch in
    each process. Raises InputError: it cannot be loaded, or the backend is not installed; StepError: it has
    disappeared meanwhile."""
    scores = Path(cache).expanduser() if cache else None
    work = Work(Journal(state / JOURNAL))
    if work.journal:
        print(f"{len(work.journal)} batches are computed already", flush=True)
    if backend == "transformers":
        work.helpers = [Helper(load_helper, checkpoint.path, batch_tokens, threads, seed, number, dtype)
                        for number in range(1, processes)]  # fmt: skip
    model: LanguageModel | None = None
    try:
        if backend == "vllm":
            model = _open_vllm(checkpoint, batch_tokens, processes, work, scores, seed, dtype)
        else:
            model = LanguageModel.load(checkpoint, batch_tokens, work=work, cache=scores, dtype=dtype)
        model.scorer.cache.load(state / KNOWN)
        yield model
    finally:
        work.close()
        if isinstance(model, VLLMLanguageModel):
            model.close()


def _open_vllm(checkpoint: Checkpoint, batch_tokens: int, processes: int, work: Work, cache: Path | None, seed: int,
               dtype: str) -> "VLLMLanguageModel":
    """Load an export into vLLM's engine; `processes` are GPUs that one model is spread over."""
    try:
        import vllm  # type: ignore[import-not-found]
    except ImportError:
        raise InputError("backend is vllm, which is not installed: `pip install vllm` on a machine with a GPU, or "
                         "take backend: transformers") from None
    base, adapter = checkpoint.path, None
    named: dict[str, Any] = {} if dtype == "weights" else {"dtype": dtype}
    if is_adapter(base):
        base, rank = served_adapter(base, "vllm")
        named |= {"enable_lora": True, "max_lora_rank": rank}
        from vllm.lora.request import LoRARequest  # type: ignore[import-not-found]

        adapter = LoRARequest("adapter", 1, str(checkpoint.path.resolve()))
    check_files(base)
    with loading(checkpoint.path):
        encoder = load_encoder(checkpoint.path)
        config: Any = load_config(checkpoint.path)
        engine: Any = vllm.LLM(model=str(base), seed=seed, tensor_parallel_size=processes,
                               max_logprobs=int(config.get_text_config().vocab_size),
                               enable_prefix_caching=True, trust_remote_code=False, **named)  # fmt: skip
        engine.generate = partial(engine.generate, use_tqdm=False, lora_request=adapter)  # a cycle: see `close`
    about = ("vllm", str(vllm.__version__), str(processes), *map(str, named.values()))
    scores = ScoreCache(model_directory(cache, checkpoint.path, about)) if cache else None
    return VLLMLanguageModel(engine, config, encoder, batch_tokens, work, scores)


class VLLMScorer(Scorer):
    """The Scorer over an engine. Args as Scorer's; `engine`: a vllm.LLM."""

    def __init__(self, engine: Any, vocabulary: int, max_length: int, batch_tokens: int, work: Work | None,
                 cache: ScoreCache | None) -> None:
        self.engine, self.vocabulary = engine, vocabulary
        self.max_length = max_length - 2  # the engine wants room for the last token and one more
        self.batch_tokens = batch_tokens
        self.work, self.cache = work or Work(), cache or ScoreCache()

    @property
    def branching(self) -> bool:
        """No: the engine keeps prefixes."""
        return False

    def compute(self, task: tuple[Tokens, Sequence[Sequence[Query]]]) -> list[list[list[Any]]]:
        queries = [query for row in task[1] for query in row]
        prompts = [(*query.tokens, query.targets[-1]) for query in queries]
        outputs = self.run(prompts, temperature=0, max_tokens=1, prompt_logprobs=1, detokenize=False)
        dumped = []
        for query, output in zip(queries, outputs, strict=True):  # {token: logprob} of each token given those before it
            given = output.prompt_logprobs[query.first + 1 :]
            each = [given[at][token] for at, token in enumerate(query.targets)]
            dumped.append(TokenScores(np.array([logprob.logprob for logprob in each], dtype=np.float64),
                                      np.array([logprob.rank == 1 for logprob in each], dtype=np.bool_)).dump())
        return dumped

    def next_token(self, contexts: Sequence[Tokens]) -> "Iterator[tuple[int, torch.Tensor]]":
        """Yield distributions as Scorer does; the engine gives the log-probability of every token."""
        chosen = [index for index, context in enumerate(contexts) if context]
        prompts = [contexts[index][-self.max_length :] for index in chosen]
        self.cut += sum(len(context) > self.max_length for context in contexts)
        outputs = self.run(prompts, temperature=0, max_tokens=1, logprobs=self.vocabulary, detokenize=False)
        for index, output in zip(chosen, outputs, strict=True):
            values = torch.full((self.vocabulary,), -torch.inf)
            for token, logprob in output.outputs[0].logprobs[0].items():
                values[token] = logprob.logprob
            yield index, values

    def run(self, prompts: Sequence[Tokens], seeds: Sequence[int] = (), **sampling: Any) -> list[Any]:
        """Run the engine on prompts; `sampling`: vLLM's SamplingParams, of which each prompt may have its own seed."""
        from vllm import SamplingParams, TokensPrompt

        given = [TokensPrompt(prompt_token_ids=list(prompt)) for prompt in prompts]
        chosen = [SamplingParams(seed=seed, **sampling) for seed in seeds] or SamplingParams(**sampling)
        outputs: list[Any] = self.engine.generate(given, chosen)
        return outputs

    def _limits(self) -> Limits:
        # No limit of logits: the engine keeps those of a position at a time.
        return Limits(self.batch_tokens * _AT_ONCE, self.max_length, 0, None, self.batch_tokens * _AT_ONCE)


class VLLMDecoder(Decoder):
    """An engine's answers, without log-probabilities."""

    def __init__(self, scorer: VLLMScorer) -> None:
        self._run = scorer.run

    def __call__(self, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], decoding: Decoding) -> Answers:
        """Answer each prompt; each answer is a request with its seed, halved, since the engine's have a sign."""
        asked = [(tuple(prompt), seed) for prompt, own in zip(prompts, seeds, strict=True) for seed in own]
        sampling = {"temperature": decoding.temperature, "top_k": decoding.top_k, "top_p": decoding.top_p,
                    "max_tokens": decoding.max_new_tokens, "stop": [*decoding.stops],
                    "stop_token_ids": [*decoding.stop_ids]}
        outputs = self._run([prompt for prompt, _ in asked], [seed >> 1 for _, seed in asked], **sampling)
        return Answers([list(output.outputs[0].token_ids) for output in outputs], [[] for _ in asked])


class VLLMLanguageModel(LanguageModel):
    """A LanguageModel whose scores and texts come from vLLM. `model` has the configuration alone."""

    def __init__(self, engine: Any, config: Any, encoder: Encoder, batch_tokens: int, work: Work | None,
                 cache: ScoreCache | None) -> None:
        self._engine = engine
        super().__init__(SimpleNamespace(config=config), encoder, batch_tokens, work, cache)

    def close(self) -> None:
        """End the engine's process, which holds its memory: the next checkpoint of a batch needs that."""
        self._engine.llm_engine.engine_core.shutdown()

    def _make_parts(self, batch_tokens: int, work: Work | None, cache: ScoreCache | None) -> tuple[Scorer, Decoder]:
        vocabulary = int(self.model.config.get_text_config().vocab_size)
        scorer = VLLMScorer(self._engine, vocabulary, self.max_length, batch_tokens, work, cache)
        return scorer, VLLMDecoder(scorer)
