"""A checkpoint with its tokenizer: texts in, log-probabilities and greedy texts out."""

import logging
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.lazy import torch
from argosy.core.step.machine import device_kind
from argosy.corpus.data.split import derive_seed
from argosy.model.infer.batches import batches_of
from argosy.model.infer.decode import Decoder, Decoding, TransformersDecoder, before_stops
from argosy.model.infer.encoder import Encoder, load_encoder
from argosy.model.infer.rows import Score, Tokens, common
from argosy.model.infer.scorer import Fit, Request, Scorer
from argosy.model.infer.work import Helper, ScoreCache, Work, model_directory
from argosy.model.weights.chat import answer_start, apply_template, check_ends, end_tokens
from argosy.model.weights.checkpoint import Checkpoint
from argosy.model.weights.load import load_shared
from argosy.model.weights.pretrained import loading

DEFAULT_MAX_LENGTH = 2048
EAGER_LENGTH = 1024  # on a CPU, plain attention is faster than torch's fused one for rows as short as questions


Pair = tuple[str, str]  # context, continuation


class LanguageModel:
    """Scores texts as lm-eval's HFLM does (tests hold the two together), faster.

    A text without context is conditioned on `prefix_token`: BOS, as documents begin in training, or EOS where the
    tokenizer has no BOS (lm-eval's rule)."""

    def __init__(self, model: Any, encoder: Encoder, batch_tokens: int = 8192, work: Work | None = None,
                 cache: ScoreCache | None = None) -> None:
        self.model = model
        self._encoder = encoder
        self.tokenizer = tokenizer = encoder.tokenizer
        prefix_token = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        if prefix_token is None:
            raise InputError("the tokenizer has neither a BOS nor an EOS token: set one in its tokenizer_config.json")
        self.prefix_token = int(prefix_token)
        self.max_length = _max_length(model.config, tokenizer)
        self.scorer, self.decoder = self._make_parts(batch_tokens, work, cache)

    def _make_parts(self, batch_tokens: int, work: Work | None, cache: ScoreCache | None) -> tuple[Scorer, Decoder]:
        scorer = Scorer(self.model, self.max_length, batch_tokens, work, cache)
        return scorer, TransformersDecoder(self.model, self.decode, sharing=scorer.branching)

    @classmethod
    def load(cls, checkpoint: Checkpoint, batch_tokens: int = 8192, *, work: Work | None = None,
             cache: Path | None = None, device: int = 0, dtype: str = "weights") -> "LanguageModel":
        """Load an export.

        Args:
            cache: a directory for scores that are kept from one evaluation to the next.
            device: number of the process among those that evaluate; GPUs are dealt by it.

        Raises InputError: it cannot be loaded, or not whole; names the directory and says why; StepError: it has
        disappeared meanwhile."""
        import transformers

        transformers.logging.disable_progress_bar()
        logging.getLogger("transformers").setLevel(logging.ERROR)
        with loading(checkpoint.path):
            encoder = load_encoder(checkpoint.path)
        check_ends(encoder.tokenizer)
        model = load_shared(checkpoint.path, dtype="auto" if dtype == "weights" else dtype).eval()
        if (where := device_kind()) != "cpu":
            where = f"{where}:{device % torch.get_device_module(where).device_count()}"
        if where == "cpu" and _max_length(model.config, encoder.tokenizer) <= EAGER_LENGTH:
            model.set_attn_implementation("eager")
        about = (str(model.dtype), str(getattr(model.config, "_attn_implementation", "")), where.partition(":")[0],
                 torch.__version__, transformers.__version__)
        scores = ScoreCache(model_directory(cache, checkpoint.path, about)) if cache else None
        return cls(model.to(where), encoder, batch_tokens, work, scores)

    def loglikelihood(self, pairs: Sequence[Pair], items: Sequence[Hashable] | None = None) -> list[Score]:
        """Score each continuation given its context ("" = the start of a document). `items`: see `encode_pairs`."""
        return self.scorer.score(self.encode_pairs(pairs, items))

    def fit(self, pairs: Sequence[Pair], items: Sequence[Hashable] | None = None) -> list[Fit]:
        """Tell how much of each pair `loglikelihood` scores."""
        return self.scorer.fit(self.encode_pairs(pairs, items))

    def has_room(self, prompts: Sequence[str], max_tokens: int) -> list[bool]:
        """Whether each prompt and `max_tokens` after it are at most as long as the model: `generate` cuts others."""
        return [max(1, len(tokens)) + max_tokens <= self.max_length for tokens in self.encode(prompts)]

    def prepare(self, pairs: Sequence[Pair], items: Sequence[Hashable], texts: Sequence[str]) -> None:
        """Score both in one pass, which shares what they have in common: `loglikelihood` of the pairs and
        `text_loglikelihood` of the texts are in the cache then."""
        self.scorer.score([*self.encode_pairs(pairs, items), *(window for _, window in self._windows_of(texts))])

    def text_loglikelihood(self, texts: Sequence[str]) -> list[Score]:
        """Score whole texts, each in windows of the model's length that do not overlap: lm-eval's rolling score, but
        the BOS that a tokenizer adds is never scored (HFLM scores it, after its prefix BOS)."""
        windows = list(self._windows_of(texts))
        totals = [(0.0, True, 0)] * len(texts)
        for (owner, _), score in zip(windows, self.scorer.score([window for _, window in windows]), strict=True):
            logprob, greedy, count = totals[owner]
            totals[owner] = (logprob + score.logprob, greedy and score.greedy, count + score.tokens)
        return [Score(*total) for total in totals]

    def _windows_of(self, texts: Sequence[str]) -> Iterator[tuple[int, Request]]:
        for owner, tokens in enumerate(self.encode(texts, special=False)):
            yield from ((owner, window) for window in self.windows(tokens))

    def windows(self, tokens: Tokens, stride: int | None = None) -> list[Request]:
        """Cut (context, continuation) pairs that predict each token once.

        The first window is as long as the model and follows the prefix token; then `stride` tokens at a time (None: as
        many as the model has positions) have all the context that fits, as in Hugging Face's guide "Perplexity of
        fixed-length models"."""
        size = self.max_length
        step = size if stride is None else stride
        windows: list[Request] = [((self.prefix_token,), tokens[:size])] if tokens else []
        for start in range(size, len(tokens), step):
            end = min(start + step, len(tokens))
            windows.append((tokens[max(0, end - size - 1) : start], tokens[start:end]))
        return windows

    def generate(self, prompts: Sequence[str], stops: Sequence[str] = (), max_tokens: int = 256,
                 **sampling: Any) -> list[str]:
        """Continue each prompt, up to an EOS or `max_tokens`, cut before the first of `stops`; greedily, or by the
        `sampling` of `generate_tokens`. A prompt keeps its last tokens where it and `max_tokens` are longer than the
        model."""
        stops = [stop for stop in stops if stop]
        texts = self.generate_tokens(prompts, self.ends(chat=False), max_tokens, stops, **sampling)
        return [before_stops(self.decode(tokens), stops) for tokens in texts]

    def generate_tokens(self, prompts: Sequence[str], ends: Sequence[int], max_tokens: int, stops: Sequence[str] = (),
                        temperature: float = 0.0, seed: int = 0, seeds: Sequence[int] | None = None,
                        **limits: Any) -> list[list[int]]:
        """Continue each prompt, greedily at temperature 0: the tokens up to one of `ends` (not included), a stop text
        (included) or `max_tokens`. Fewer than that are a text that has ended. A sampled text depends on its prompt and
        its seed of `seeds`; without them, on `seed` and its place among the prompts. `limits`: `top_k` and `top_p` of a
        Decoding."""
        room = max(1, self.max_length - max_tokens)
        whole = self.encode(prompts)
        self.scorer.cut += sum(len(tokens) > room for tokens in whole)
        most = min(max_tokens, max(1, self.max_length - room))
        decoding = Decoding(tuple(ends), 0, most, temperature, stops=tuple(stops), scored=False, **limits)
        drawn = seeds if seeds is not None else [derive_seed("texts", seed, place) for place in range(len(whole))]
        requests = [(tokens[-room:] or (self.prefix_token,), own if temperature else 0)
                    for tokens, own in zip(whole, drawn, strict=True)]  # fmt: skip
        batches = batches_of(requests, most, self.scorer.batch_tokens, sharing=self.decoder.shares,
                             cpu=str(getattr(self.model, "device", "")) == "cpu")
        tasks = [(batch, decoding) for batch in batches]
        texts: dict[tuple[Tokens, int], list[int]] = {}
        sizes = [len(batch) * len(batch[0][1]) for batch, _ in tasks]
        for number, made in self.scorer.work.run("texts", tasks, lambda task: self.compute("texts", task), sizes):
            asked = [(prompt, own) for prompt, several in tasks[number][0] for own in several]
            texts.update(zip(asked, made, strict=True))
        return [text[:-1] if text and text[-1] in ends else text for text in map(texts.__getitem__, requests)]

    def compute(self, kind: str, task: Any) -> Any:
        """Compute a batch of `scores` or of `texts` (argosy.model.infer.work)."""
        if kind == "scores":
            return self.scorer.compute(task)
        requests, decoding = task
        decoding = replace(decoding, batch_size=len(requests) * len(requests[0][1]))
        return self.decoder([prompt for prompt, _ in requests], [seeds for _, seeds in requests], decoding).tokens

    def decode(self, ids: list[int]) -> str:
        """Return the text of token ids, without special tokens."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def ends(self, *, chat: bool) -> list[int]:
        """List tokens that end a text, in a chat an answer; the prefix token where there is none."""
        configured = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        return end_tokens(self.tokenizer, chat=chat, configured=configured) or [self.prefix_token]

    def encode_pairs(self, pairs: Sequence[Pair], items: Sequence[Hashable] | None = None) -> list[Request]:
        """Encode contexts and continuations. Spaces at a context's end go to the continuation, and the two are encoded
        as one text, since merges cross the border (lm-eval's rules, on which published numbers rest). That encoding is
        split where the context alone would end; where a token joins the two, before that token, so that the rest of
        the context is scored with the continuation.

        `items`: for each pair what it is compared with: all pairs of one value are split equally far before their
        contexts' ends. Where these differ between there and the end, no pair of the item has a context: it has no
        score. None: each pair is alone."""
        moved = [(start := context.rstrip(), context[len(start) :] + continuation) for context, continuation in pairs]
        whole = iter(self.encode([context + continuation for context, continuation in moved if context]))
        alone = iter(self.encode([context for context, _ in moved if context]))
        bare = iter(self.encode([continuation for context, continuation in moved if not context], special=False))
        requests: list[Request] = []
        groups: dict[Hashable, list[int]] = {}
        for number, (context, _) in enumerate(moved):
            requests.append((next(alone), next(whole)) if context else ((self.prefix_token,), next(bare)))
            if context:
                groups.setdefault(number if items is None else items[number], []).append(number)
        for numbers in groups.values():
            split = self._split([requests[number] for number in numbers])
            for number, request in zip(numbers, split, strict=True):
                requests[number] = request
        return requests

    def _split(self, options: Sequence[tuple[Tokens, Tokens]]) -> list[Request]:
        """Split the encodings of an item's options. `options`: tokens of each context alone, and of the whole."""
        back = max(len(before) - max(0, min(common(before, whole), len(whole) - 1)) for before, whole in options)
        if len({before[max(0, len(before) - back) :] for before, _ in options}) > 1:
            return [((), whole) for _, whole in options]
        cuts = [(whole, len(before) - back) for before, whole in options]
        return [(whole[:cut] or (self.prefix_token,), whole[cut:]) for whole, cut in cuts]

    def encode(self, texts: Sequence[str], special: bool = True) -> list[Tokens]:
        """Encode texts, with the special tokens that the tokenizer itself adds before them if `special`; a text that
        begins with BOS already (a chat template's) gets no second one. What goes on is not closed by an EOS."""
        start, closing = self.tokenizer.decode([self.prefix_token]), self.tokenizer.eos_token_id
        plain = [text for text in texts if not (special and start and text.startswith(start))]
        begun = [text for text in texts if special and start and text.startswith(start)]
        encoded = dict(zip(plain, self._encoder.encode(plain, special), strict=True))
        encoded.update(zip(begun, self._encoder.encode(begun, False), strict=True))
        for text, tokens in encoded.items() if special else ():
            if len(tokens) > 1 and tokens[-1] == closing and not text.endswith(self.tokenizer.eos_token):
                encoded[text] = tokens[:-1]
        return [encoded[text] for text in texts]

    def chat(self, user: str) -> str:
        """Render a user's turn in the chat template, with the generation prompt.

        Raises InputError: the tokenizer has no chat template."""
        if not self.tokenizer.chat_template:
            raise InputError("the checkpoint's tokenizer has no chat template; evaluate it with chat=off")
        return self.render([{"role": "user", "content": user}])

    def answer(self, text: str) -> str:
        """Render `text` as the assistant's turn has it after `chat`: with the space that some templates put there."""
        return answer_start(self.render) + text

    def render(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True, **how: Any) -> str:
        """Render messages in the chat template; without generation prompt, up to the last message's own text. `how`:
        what else the template takes, such as `tools`."""
        text: str = apply_template(
            self.tokenizer, messages, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt, **how)
        return text


def load_helper(helper: Helper) -> LanguageModel:
    checkpoint = Checkpoint(helper.checkpoint, helper.checkpoint.name)
    return LanguageModel.load(checkpoint, helper.batch_tokens, device=helper.number, dtype=helper.dtype)


def _max_length(config: Any, tokenizer: Any) -> int:
    """Look up the positions of the model as lm-eval does."""
    for owner in (getattr(config, "text_config", None), config):
        for name in ("n_positions", "max_position_embeddings", "n_ctx"):
            value = getattr(owner, name, None)
            if isinstance(value, int):
                return value
    length = tokenizer.model_max_length
    return int(length) if 0 < length < 10**9 else DEFAULT_MAX_LENGTH
