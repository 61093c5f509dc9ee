"""Log-probabilities: of an output layer's logits, some positions and some of the vocabulary at a time; of answers in
padded batches; and the Kullback-Leibler divergence of a policy from its reference.

On a CPU, passes over logits that have left its caches take a third as long as the products that make them, so each
block of the vocabulary is read while it is there (a running maximum and sum of exponentials: Milakov and Gimelshein,
Online normalizer calculation for softmax, 2018)."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from argosy.core.lazy import torch
from argosy.core.step.contract import counted
from argosy.model.infer.plan import LOGITS

Blocks = Iterator["torch.Tensor"]  # logits [position, some of the vocabulary], in the order of the vocabulary
Parts = Iterator[tuple[range, Blocks]]  # of which positions each is
_POSITIONS = 1024  # at a time: more make no product of matrices faster
_BLOCK = 2**20  # logits: 4 MiB as float32
_WHOLE = 2**23  # logits at a time where all of the vocabulary is needed: 32 MiB, which the allocator keeps


def parts(head: Any, hidden: "torch.Tensor", vocabulary: int) -> Parts:
    """Compute logits of all positions. `head`: the output layer. `hidden`: its input [position, hidden unit]."""
    cpu = hidden.device.type == "cpu"
    plain = type(head) is torch.nn.Linear and not (head._forward_hooks or head._forward_pre_hooks)
    in_blocks = cpu and plain  # the head does no more than torch's linear layer
    step = _POSITIONS if in_blocks else max(1, (_WHOLE if cpu else LOGITS) // vocabulary)
    for start in range(0, len(hidden), step):
        here = hidden[start : start + step]
        blocks = _blocks(head, here) if in_blocks else iter([head(here)])
        yield range(start, start + len(here)), blocks


def _blocks(head: Any, hidden: "torch.Tensor") -> Blocks:
    width = max(1, min(_BLOCK // len(hidden), -(-len(head.weight) // 2)))  # two at least: a trial sees a border too
    for begin in range(0, len(head.weight), width):
        bias = None if head.bias is None else head.bias[begin : begin + width]
        yield torch.nn.functional.linear(hidden, head.weight[begin : begin + width], bias)


def log_softmax(blocks: Blocks) -> "torch.Tensor":
    """Compute log-probabilities [position, vocabulary], float32."""
    return torch.log_softmax(torch.cat(list(blocks), dim=-1).float(), dim=-1)


def target_logprobs(blocks: Blocks, at: "torch.Tensor", token: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """Read the log-probability (nats) of each `token` at the position `at`, and whether it is the first of the
    likeliest. The logits are used up."""
    block = next(blocks)
    read = _Reading(at.to(block.device), token.to(block.device))
    for logits in chain([block], blocks):
        read.add(logits.float())
    return read.result()


class _Reading:
    """Numbers read of the blocks so far.

    Attributes:
        own: logit of each token; NaN of one that is not in the vocabulary.
        first: whether none before it in the vocabulary has as much, nor any of its block more.
        most: the highest logit of each position.
        total: sum of the exponentials of each position's logits, less `most`."""

    most: "torch.Tensor"
    total: "torch.Tensor"

    def __init__(self, at: "torch.Tensor", token: "torch.Tensor") -> None:
        self._at, self._token, self._begin = at, token, 0
        self.own = torch.full((len(token),), torch.nan, device=token.device)
        self.first = torch.zeros(len(token), dtype=torch.bool, device=token.device)

    def add(self, values: "torch.Tensor") -> None:
        """Read the next block [position, some of the vocabulary], float32."""
        high = values.amax(dim=-1).clamp_min(torch.finfo(torch.float32).min)  # a number, of a block of -inf too
        if not self._begin:
            self.most, self.total = high, torch.zeros_like(high)
        column = self._token - self._begin
        here = ((column >= 0) & (column < values.shape[-1])).nonzero()[:, 0]
        row, column = self._at[here], column[here]
        own = self.own[here] = values[row, column]
        first = own == high[row]
        tied = first.nonzero()[:, 0]
        first[tied] = values[row[tied]].argmax(dim=-1) == column[tied]
        self.first[here] = first & (own > self.most[row]) if self._begin else first
        most = torch.maximum(self.most, high)
        self.total.mul_(torch.exp(self.most - most)).add_(values.sub_(most[:, None]).exp_().sum(dim=-1))
        self.most = most
        self._begin += values.shape[-1]

    def result(self) -> "tuple[torch.Tensor, torch.Tensor]":
        """Finish `target_logprobs`, when all blocks are read."""
        most = self.most[self._at]
        return self.own - most - torch.log(self.total)[self._at], self.first & (self.own == most)


def pad_right(rows: Sequence[Sequence[int]], value: int) -> Any:
    """Return a (rows, longest row) int64 tensor, padded on the right with `value`."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: Any) -> tuple[Any, Any]:
    """Return rows as `pad_right` does, and the mask of their tokens, on a device."""
    return pad_right(rows, pad_id).to(device), pad_right([[1] * len(row) for row in rows], 0).to(device)


def by_length(rows: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Yield the indices of all rows in batches of near-equal lengths, shortest first."""
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def answer_logprobs(model: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad_id: int,
                    batch_size: int) -> list[Any]:
    """Return log p(token | prompt and answer so far) of each answer's tokens: one float tensor an answer."""
    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    result: list[Any] = [None] * len(rows)
    model.eval()
    with torch.no_grad():
        for batch in counted(by_length(rows, batch_size), len(rows), "answers"):
            ids, mask = padded([rows[index] for index in batch], pad_id, model.device)
            logprobs = token_logprobs(model(input_ids=ids, attention_mask=mask).logits[:, :-1], ids[:, 1:]).cpu()
            for at, index in enumerate(batch):
                start = len(prompts[index]) - 1
                result[index] = logprobs[at, start : start + len(answers[index])].clone()
    return result


def token_logprobs(logits: Any, ids: Any) -> Any:
    """Return the log-probability of `ids` (..., T) under `logits` (..., T, V), in float32."""
    return logits.float().log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def likeliest(shares: Any, top_k: int, top_p: float) -> Any:
    """Return probabilities (..., V) with 0 for what `top_k` (0: nothing), and then `top_p` of what is left (Holtzman et
    al. 2020), leave out."""
    if not top_k and top_p >= 1:
        return shares
    values, places = shares.sort(dim=-1, descending=True, stable=True)
    values[..., top_k or values.shape[-1] :] = 0
    before = values.cumsum(-1) - values
    return shares.scatter(-1, places, values.masked_fill(before >= top_p * values.sum(-1, keepdim=True), 0))


def sample_tokens(shares: Any, numbers: Any, top_k: int, top_p: float) -> Any:
    """Return the token of each row, (R,), that its number in [0, 1), (R,), falls on in its probabilities, (R, V);
    `likeliest` leaves some of them out."""
    rising = likeliest(shares, top_k, top_p).cumsum(-1)
    point = numbers.unsqueeze(1) * rising[:, -1:]
    return torch.searchsorted(rising, point, right=True).squeeze(1).clamp(max=shares.shape[1] - 1)


def k1(logprobs: Any, reference: Any) -> Any:
    """Return log p - log q of each sampled token: unbiased, of high variance, negative at times (Schulman 2020)."""
    return logprobs - reference


def k3(logprobs: Any, reference: Any) -> Any:
    """Return q/p - 1 - log(q/p) of each sampled token: unbiased, of low variance, never negative (Schulman 2020)."""
    ratio = reference - logprobs
    return ratio.exp() - 1 - ratio


def exact(logits: Any, reference: Any) -> Any:
    """Return the sum over the vocabulary of p (log p - log q) at each position: (..., T, V) -> (..., T).

    No sampling error within a position; only the positions themselves are sampled."""
    ours, theirs = logits.float().log_softmax(-1), reference.float().log_softmax(-1)
    return (ours.exp() * (ours - theirs)).sum(-1)


def answer_kl(policy: Any, reference: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]],
              pad_id: int) -> dict[str, float]:
    """Return the mean over the answers of the divergence summed over their tokens, in nats an answer.

    Args:
        answers: sampled from `policy` at temperature 1.

    Returns:
        {"kl": exact at each position, "kl_k1", "kl_k3": the two estimators, from the sampled tokens alone}."""
    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True) if policy is not reference]
    totals = {"kl": 0.0, "kl_k1": 0.0, "kl_k3": 0.0}
    with torch.no_grad():
        for batch in counted(by_length(rows, 64), len(rows), "divergences"):
            ids, mask = padded([rows[i] for i in batch], pad_id, policy.device)
            spans = [[0] * (len(prompts[i]) - 1) + [1] * len(answers[i]) for i in batch]
            answered = pad_right(spans, 0).to(policy.device)
            start = min(len(prompts[i]) for i in batch) - 1  # no logits for what is prompt in all rows
            inputs = {"input_ids": ids, "attention_mask": mask, "logits_to_keep": ids.size(1) - start}
            p, q = (model(**inputs).logits[:, :-1] for model in (policy, reference))
            ours, theirs = (token_logprobs(logits, ids[:, start + 1 :]) for logits in (p, q))
            values = {"kl": exact(p, q), "kl_k1": k1(ours, theirs), "kl_k3": k3(ours, theirs)}
            for name, value in values.items():
                totals[name] += float((value * answered[:, start:]).sum())
    return {name: total / len(prompts) for name, total in totals.items()}
