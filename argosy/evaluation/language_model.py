"""A checkpoint with its tokenizer: texts in, log-probabilities out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from argosy.errors import InputError, StepError
from argosy.evaluation.cache import Known, model_directory
from argosy.evaluation.checkpoint import Checkpoint
from argosy.evaluation.encoder import Encoder, load_encoder
from argosy.evaluation.generation import Generator, before_stops, by_reach, ends_of, in_batches
from argosy.evaluation.rows import Tokens
from argosy.evaluation.scoring import Fit, Score, Scorer
from argosy.evaluation.work import Work

if TYPE_CHECKING:
    import torch

DEFAULT_MAX_LENGTH = 2048
EAGER_LENGTH = 1024  # on a CPU, plain attention is faster than torch's fused one for rows as short as questions


class LanguageModel:
    """Scores texts as lm-eval's HFLM does (tests hold the two together), faster.

    Args:
        model: a causal model in evaluation mode.
        encoder: its tokenizer.
        batch_tokens: tokens of one forward pass.

    A text without context is conditioned on `prefix_token`: BOS, as documents begin in training, or EOS where the
    tokenizer has no BOS (lm-eval's rule).
    """

    def __init__(
        self, model: Any, encoder: Encoder, batch_tokens: int = 8192, work: Work | None = None,
        known: Known | None = None,
    ) -> None:
        self.model = model
        self._encoder = encoder
        self.tokenizer = tokenizer = encoder.tokenizer
        prefix_token = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        if prefix_token is None:
            raise InputError("the tokenizer has neither a BOS nor an EOS token: set one in its tokenizer_config.json")
        self.prefix_token = int(prefix_token)
        self.max_length = _max_length(model.config, tokenizer)
        self.scorer: Scorer = self._make_scorer(batch_tokens, work, known)

    def _make_scorer(self, batch_tokens: int, work: Work | None, known: Known | None) -> Scorer:
        return Scorer(self.model, self.max_length, batch_tokens, work, known)

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, batch_tokens: int = 8192, *, work: Work | None = None, cache: Path | None = None,
        device: int = 0,
    ) -> LanguageModel:
        """Load an export.

        Args:
            work: who computes batches, and where they are written down.
            cache: a directory for scores that are known from one evaluation to the next.
            device: number of the process among those that evaluate; GPUs are dealt by it.

        Raises:
            InputError: transformers cannot load it; names the directory and says why.
            StepError: it has disappeared meanwhile.
        """
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        logging.getLogger("transformers").setLevel(logging.ERROR)
        try:
            encoder = load_encoder(checkpoint.path)
            model: Any = AutoModelForCausalLM.from_pretrained(checkpoint.path, dtype="auto")
            model.eval()
        except Exception as error:  # whatever is wrong with its files, it is this checkpoint that is wrong
            if not (checkpoint.path / "config.json").is_file():
                raise StepError(f"checkpoint {checkpoint.path} has disappeared while it was loaded: run its training "
                                "step again, then this") from error
            raise InputError(f"cannot load the checkpoint {checkpoint.path}: {error}") from error
        where = _device(device)
        if where == "cpu" and _max_length(model.config, encoder.tokenizer) <= EAGER_LENGTH:
            model.set_attn_implementation("eager")
        known = Known(_cached(cache, checkpoint, model, where)) if cache else None
        return cls(model.to(where), encoder, batch_tokens, work, known)

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> list[Score]:
        """The score of each continuation given its context ("" = the start of a document)."""
        return self.scorer.score(self.encode_pairs(pairs))

    def fit(self, pairs: Sequence[tuple[str, str]]) -> list[Fit]:
        """How much of each pair `loglikelihood` scores."""
        return self.scorer.fit(self.encode_pairs(pairs))

    def has_room(self, prompts: Sequence[str], max_tokens: int) -> list[bool]:
        """Whether each prompt and `max_tokens` after it are at most as long as the model: `generate` cuts others."""
        return [max(1, len(tokens)) + max_tokens <= self.max_length for tokens in self.encode(prompts)]

    def next_token(self, contexts: Sequence[str]) -> list[torch.Tensor]:
        """Log-probabilities [vocabulary] of the token after each context."""
        encoded = [tokens or (self.prefix_token,) for tokens in self.encode(contexts)]
        found = dict(self.scorer.next_token(encoded))
        return [found[index] for index in range(len(contexts))]

    def prepare(self, pairs: Sequence[tuple[str, str]], texts: Sequence[str]) -> None:
        """Score both in one pass, which shares what they have in common: `loglikelihood` of the pairs and
        `text_loglikelihood` of the texts know it then."""
        windows = [window for tokens in self.encode(texts, special=False) for window in self.windows(tokens)]
        self.scorer.score([*self.encode_pairs(pairs), *windows])

    def text_loglikelihood(self, texts: Sequence[str]) -> list[Score]:
        """Of whole texts, each in windows of the model's length that do not overlap: lm-eval's rolling one, but the
        BOS that a tokenizer adds is never scored (HFLM scores it, after its prefix BOS)."""
        requests, owners = [], []
        for owner, tokens in enumerate(self.encode(texts, special=False)):
            for window in self.windows(tokens):
                requests.append(window)
                owners.append(owner)
        totals = [(0.0, True, 0)] * len(texts)
        for owner, score in zip(owners, self.scorer.score(requests), strict=True):
            logprob, greedy, count = totals[owner]
            totals[owner] = (logprob + score.logprob, greedy and score.greedy, count + score.tokens)
        return [Score(*total) for total in totals]

    def token_logprobs(self, texts: Sequence[str]) -> list[NDArray[np.float64]]:
        """Log-probability (nats) of each token of each text, in the windows of `text_loglikelihood`."""
        requests, owners = [], []
        for owner, tokens in enumerate(self.encode(texts, special=False)):
            for window in self.windows(tokens):
                requests.append(window)
                owners.append(owner)
        parts: list[list[NDArray[np.float64]]] = [[] for _ in texts]
        for owner, part in zip(owners, self.scorer.token_logprobs(requests), strict=True):
            parts[owner].append(part)
        return [np.concatenate(found) if found else np.zeros(0) for found in parts]

    def generate(self, prompts: Sequence[str], stops: Sequence[str] = (), max_tokens: int = 256) -> list[str]:
        """What the model says after each prompt: its most probable token each time (transformers' greedy generate),
        up to an EOS or `max_tokens`, cut before the first of `stops`. A prompt keeps its last tokens where it and
        `max_tokens` are longer than the model."""
        stops = [stop for stop in stops if stop]
        room = max(1, self.max_length - max_tokens)
        whole = self.encode(prompts)
        self.scorer.cut += sum(len(tokens) > room for tokens in whole)
        encoded = [tokens[-room:] or (self.prefix_token,) for tokens in whole]
        each = list(dict.fromkeys(encoded))
        made = self._made(each, stops, min(max_tokens, max(1, self.max_length - room)))
        texts = {tokens: before_stops(self._decode(ids), stops) for tokens, ids in zip(each, made, strict=True)}
        return [texts[tokens] for tokens in encoded]

    def _made(self, prompts: list[Tokens], stops: Sequence[str], max_tokens: int) -> list[list[int]]:
        """The tokens after each prompt."""
        batches = [[group[index] for index in batch]
                   for group in by_reach(prompts, max_tokens, self.scorer.short)
                   for batch in in_batches([prompts[index] for index in group], max_tokens, self.scorer.batch_tokens)]
        tasks = [(tuple(prompts[index] for index in batch), tuple(stops), max_tokens) for batch in batches]
        found: dict[int, list[int]] = {}
        for number, made in self.scorer.work.run("made", tasks, lambda task: self.compute("made", task)):
            found.update(zip(batches[number], made, strict=True))
        return [found[index] for index in range(len(prompts))]

    def compute(self, kind: str, task: Any) -> Any:
        """A batch of `scores` or of texts that are `made` (argosy.evaluation.work)."""
        if kind == "scores":
            return self.scorer.compute(task)
        ends = ends_of(self.model, self.tokenizer)
        generator = Generator(self.model, self._decode, ends, self.scorer.short)
        return generator.continue_all(*task)

    def _decode(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def windows(self, tokens: Tokens) -> list[tuple[Tokens, Tokens]]:
        """(context, continuation) pairs that predict each token once: the first window follows the prefix token,
        a later one has as much context as fits."""
        size = self.max_length
        if not tokens:
            return []
        found: list[tuple[Tokens, Tokens]] = [((self.prefix_token,), tokens[:size])]
        for start in range(size, len(tokens), size):
            end = min(start + size, len(tokens))
            context = tokens[max(0, end - size - 1) : start]
            found.append((context, tokens[start:end]))
        return found

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Tokens, Tokens]]:
        """Tokens of contexts and continuations, cut where the context alone would end: the pair is tokenised
        whole, since merges cross the border, and spaces at a context's end go to the continuation (lm-eval's
        rules, on which every tokenizer's published numbers rest). A continuation that merges wholly into the
        context's last token is scored with it."""
        moved = [_move_spaces(context, continuation) for context, continuation in pairs]
        whole = iter(self.encode([context + continuation for context, continuation in moved if context]))
        start = iter(self.encode([context for context, _ in moved if context]))
        bare = iter(self.encode([continuation for context, continuation in moved if not context], special=False))
        requests: list[tuple[Tokens, Tokens]] = []
        for context, _ in moved:
            if not context:
                requests.append(((self.prefix_token,), next(bare)))
                continue
            tokens, before = next(whole), next(start)
            cut = min(len(before), len(tokens) - 1)
            requests.append((before[:cut], tokens[cut:]))
        return requests

    def encode(self, texts: Sequence[str], special: bool = True) -> list[Tokens]:
        """Tokens of each text, with the special tokens that the tokenizer itself adds if `special`; a text that
        begins with BOS already (a chat template's) gets no second one."""
        start = self.tokenizer.decode([self.prefix_token])
        plain = [text for text in texts if not (special and start and text.startswith(start))]
        begun = [text for text in texts if special and start and text.startswith(start)]
        found = dict(zip(plain, self._encoder.encode(plain, special), strict=True))
        found.update(zip(begun, self._encoder.encode(begun, False), strict=True))
        return [found[text] for text in texts]

    def vocabulary(self) -> list[str]:
        """The text of each token; a piece of a character is a replacement sign."""
        return self._encoder.vocabulary()

    def chat(self, user: str) -> str:
        """A user's turn in the chat template, with the generation prompt.

        Raises:
            InputError: the tokenizer has no chat template.
        """
        if not self.tokenizer.chat_template:
            raise InputError("the checkpoint's tokenizer has no chat template; evaluate it with chat=off")
        return self.render([{"role": "user", "content": user}])

    def answer(self, text: str) -> str:
        """`text` as the assistant's turn has it after `chat`: with the space that some templates begin it with."""
        return answer_start(self.render) + text

    def render(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Messages in the chat template; without generation prompt, up to the last message's own text."""
        text: str = self.tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
        return text


def answer_start(render: Callable[..., str]) -> str:
    """What a chat template puts between the generation prompt and the answer's own text.

    Args:
        render: messages -> text, as lm-eval's `LM.apply_chat_template`.
    """
    user, word = {"role": "user", "content": "a"}, "b"
    whole = render([user, {"role": "assistant", "content": word}], add_generation_prompt=False)
    prompt = render([user])
    return whole[len(prompt) : -len(word)] if whole.startswith(prompt) and whole.endswith(word) else ""


def _move_spaces(context: str, continuation: str) -> tuple[str, str]:
    stripped = context.rstrip()
    return stripped, context[len(stripped) :] + continuation


def _max_length(config: Any, tokenizer: Any) -> int:
    """Positions of the model, found as lm-eval finds them."""
    for owner in (getattr(config, "text_config", None), config):
        for name in ("n_positions", "max_position_embeddings", "n_ctx"):
            value = getattr(owner, name, None)
            if isinstance(value, int):
                return value
    length = tokenizer.model_max_length
    return int(length) if 0 < length < 10**9 else DEFAULT_MAX_LENGTH


def _device(number: int) -> str:
    import torch

    return f"cuda:{number % torch.cuda.device_count()}" if torch.cuda.is_available() else "cpu"


def _cached(cache: Path, checkpoint: Checkpoint, model: Any, device: str) -> Path:
    import torch
    import transformers

    attention = getattr(model.config, "_attn_implementation", "")
    made_by = torch.__version__, transformers.__version__
    about = (str(model.dtype), str(attention), device.partition(":")[0], *made_by)
    return model_directory(cache, checkpoint.path, about)

