"""Generation of text: answers of a model to prompts, sampled or greedy, and greedy decoding of many prompts at once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from argosy.core.errors import StepError
from argosy.core.step.contract import counted
from argosy.model.infer.logprobs import by_length, pad_left

Tokens = tuple[int, ...]
_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory")


@dataclass(frozen=True)
class Decoding:
    """Settings of generation."""

    stop_ids: Sequence[int]
    """tokens that end an answer"""
    pad_id: int
    max_new_tokens: int
    temperature: float = 0.0
    """0 is greedy; above, tokens are sampled from the whole softmax at that temperature"""
    seed: int = 0
    """of the sampling; the global random state is left as it was"""
    batch_size: int = 64


def generate(model: Any, prompts: Sequence[Sequence[int]], decoding: Decoding) -> list[list[int]]:
    """Generate with transformers the token ids that follow each prompt, the stop token included where there is one."""
    import torch

    answers: list[list[int]] = [[] for _ in prompts]
    was_training = model.training
    model.eval()
    with torch.random.fork_rng(), torch.no_grad(), padded(model):
        torch.manual_seed(decoding.seed)
        for batch in counted(by_length(prompts, decoding.batch_size), len(prompts), "answers"):
            rows = _generate_batch(model, [prompts[index] for index in batch], decoding)
            for index, row in zip(batch, rows, strict=True):
                answers[index] = cut(row, decoding.stop_ids)
    model.train(was_training)
    return answers


@contextmanager
def padded(model: Any) -> Iterator[None]:
    """Have the model know padding and a cache, which an attention of packed documents does not
    (argosy.model.train.layers.attention)."""
    own = model.config._attn_implementation
    if own in ("eager", "sdpa"):
        yield
        return
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(own)


def cut(ids: Sequence[int], stop_ids: Sequence[int]) -> list[int]:
    """Cut `ids` behind the first stop token."""
    end = next((at + 1 for at, token in enumerate(ids) if token in stop_ids), len(ids))
    return list(ids[:end])


def stream(
    model: Any, tokenizer: Any, prompt: Sequence[int], decoding: Decoding, say: Callable[[str], object]
) -> list[int]:
    """Generate the tokens that follow one prompt; `say` gets the text as soon as there are whole words of it."""
    from transformers import TextStreamer

    class Speaker(TextStreamer):
        """A streamer whose text goes to `say`."""

        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            say(text)

    speaker = Speaker(tokenizer, skip_prompt=True, skip_special_tokens=True)
    return _generate_batch(model, [prompt], decoding, streamer=speaker)[0]


def _generate_batch(
    model: Any, prompts: Sequence[Sequence[int]], decoding: Decoding, **more: Any
) -> list[list[int]]:
    from transformers import GenerationConfig

    ids = pad_left(prompts, decoding.pad_id).to(model.device)
    mask = pad_left([[1] * len(prompt) for prompt in prompts], 0).to(model.device)
    sampling = {"temperature": decoding.temperature, "top_k": 0, "top_p": 1.0} if decoding.temperature else {}
    generation = GenerationConfig(
        do_sample=bool(sampling), max_new_tokens=decoding.max_new_tokens, eos_token_id=list(decoding.stop_ids),
        pad_token_id=decoding.pad_id, **sampling
    )
    out = model.generate(input_ids=ids, attention_mask=mask, generation_config=generation, **more)
    rows: list[list[int]] = out[:, ids.size(1) :].tolist()
    return rows


class GreedyDecoder:
    """Greedy decoding with a Hugging Face causal model in evaluation mode: a prompt that has ended leaves its batch.

    Args:
        model: AutoModelForCausalLM's; on its device.
        decode: token ids -> text.
        ends: token ids that end a text; they are not part of it.
        short: tokens up to which a LongRoPE model has other rotary frequencies (argosy.model.infer.forward); 0: it is
            none. Then all prompts have one length, or none goes from there to beyond."""

    def __init__(
        self, model: Any, decode: Callable[[list[int]], str], ends: frozenset[int], short: int = 0
    ) -> None:
        self.model, self.decode, self.ends, self.short = model, decode, ends, short

    def continue_all(self, prompts: Sequence[Tokens], stops: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Decode the tokens after each prompt (not empty), up to an end, a stop text (included) or `max_tokens`; halves
        of the batch after each other where memory does not suffice.

        Raises StepError: it does not suffice for one prompt."""
        try:
            return self._decode_batch(prompts, stops, max_tokens)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        free_memory()
        if len(prompts) == 1:
            raise StepError(f"{max_tokens} tokens after a prompt of {len(prompts[0])} do not fit into memory")
        middle = len(prompts) // 2
        return [tokens for part in (prompts[:middle], prompts[middle:])
                for tokens in self.continue_all(part, stops, max_tokens)]  # fmt: skip

    def _decode_batch(self, prompts: Sequence[Tokens], stops: Sequence[str], max_tokens: int) -> list[list[int]]:
        batch = _Batch(self.model, prompts, self.short)
        for _ in range(max_tokens):
            best = batch.predict()
            going = [number for number, (line, token) in enumerate(zip(batch.lines, best.tolist(), strict=True))
                     if self._goes_on(batch.texts[line], token, stops)]  # fmt: skip
            if not going:
                break
            batch.advance(best, going)
        return batch.texts

    def _goes_on(self, text: list[int], token: int, stops: Sequence[str]) -> bool:
        """Append a token, and tell whether the text does not end with it."""
        if token in self.ends:
            return False
        text.append(token)
        return not self._stopped(text, stops)

    def _stopped(self, text: list[int], stops: Sequence[str]) -> bool:
        """Whether a stop text is there. It is looked for in the last tokens' text alone: a token has a byte or more, so
        a stop text lies within as many tokens as it has bytes; a character that is not whole yet is no match."""
        if not stops:
            return False
        tail = self.decode(text[-max(len(stop.encode()) for stop in stops) - 8 :])
        return any(stop in tail for stop in stops)


class _Batch:
    """Prompts that are continued together, and their KV cache.

    `texts`: the tokens after each prompt so far; `lines`: indexes of the prompts that go on, in the batch's order."""

    def __init__(self, model: Any, prompts: Sequence[Tokens], short: int) -> None:
        self.model, self.prompts, self.short = model, prompts, short
        self.texts: list[list[int]] = [[] for _ in prompts]
        self.lines = list(range(len(prompts)))
        self._ids = pad_left(prompts, 0).to(model.device)
        self._mask = pad_left([[1] * len(prompt) for prompt in prompts], 0).to(model.device)
        self._places = (self._mask.cumsum(-1) - 1).clamp(min=0)
        self._cache: Any = None

    def predict(self) -> Any:
        """The most probable next token of each line, as a tensor."""
        import torch

        with torch.inference_mode():
            outputs = self.model(input_ids=self._ids, attention_mask=self._mask, position_ids=self._places,
                                 past_key_values=self._cache, use_cache=True, logits_to_keep=1)  # fmt: skip
            best = outputs.logits[:, -1].argmax(-1)
        self._cache = outputs.past_key_values
        return best

    def advance(self, best: Any, going: Sequence[int]) -> None:
        """Go on with the lines `going` and their next tokens; the others leave the batch."""
        import torch

        device = self.model.device
        self.lines = [self.lines[number] for number in going]
        if len(going) < len(best):
            chosen = torch.tensor(going, device=device)
            self._cache.batch_select_indices(chosen)
            best, self._mask, self._places = best[chosen], self._mask[chosen], self._places[chosen]
        self._ids = best[:, None]
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(going), 1)], dim=1)
        self._places = self._places[:, -1:] + 1
        if self.short and self._mask.shape[1] == self.short + 1:  # the keys so far have other frequencies
            whole = [[*self.prompts[line], *self.texts[line]] for line in self.lines]
            self._ids, self._cache, self._places = torch.tensor(whole, device=device), None, self._mask.cumsum(-1) - 1


def in_batches(prompts: Sequence[Tokens], max_tokens: int, batch_tokens: int) -> Iterator[list[int]]:
    """Yield indexes of prompts of similar lengths, longest first. A batch has at most `batch_tokens` (or one prompt),
    the `max_tokens` to come included."""
    batch: list[int] = []
    for index in sorted(range(len(prompts)), key=lambda i: (-len(prompts[i]), prompts[i])):
        width = len(prompts[batch[0]] if batch else prompts[index]) + max_tokens
        if batch and (len(batch) + 1) * width > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def by_reach(prompts: Sequence[Tokens], max_tokens: int, short: int) -> list[list[int]]:
    """Group indexes of prompts that may be in one batch of a LongRoPE model: those that stay within `short` tokens,
    those that are longer, and those of each length that go from there to beyond."""
    groups: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        crosses = len(prompt) <= short < len(prompt) + max_tokens
        groups.setdefault(len(prompt) if crosses else -(len(prompt) > short), []).append(index)
    return list(groups.values())


def before_stops(text: str, stops: Sequence[str]) -> str:
    """Cut `text` before the first of the stop texts."""
    for stop in stops:
        text = text.split(stop)[0]
    return text


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory does not suffice, of a device or of the machine."""
    return isinstance(error, MemoryError) or any(text in str(error).lower() for text in _NO_MEMORY)


def free_memory() -> None:
    """Give back memory that is not used any more."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
