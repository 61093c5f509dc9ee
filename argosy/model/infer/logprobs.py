"""Log-probabilities of answers in padded batches, and the Kullback-Leibler divergence of a policy from its
reference."""

from collections.abc import Iterator, Sequence
from typing import Any

from argosy.core.step.contract import counted


def pad_right(rows: Sequence[Sequence[int]], value: int) -> Any:
    """Return a (rows, longest row) int64 tensor, padded on the right with `value`."""
    import torch

    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def by_length(rows: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Yield the indices of all rows in batches of near-equal lengths, shortest first."""
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def answer_logprobs(
    model: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad_id: int, batch_size: int,
) -> list[Any]:
    """Return log p(token | prompt and answer so far) of each answer's tokens: one float tensor an answer."""
    import torch

    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    result: list[Any] = [None] * len(rows)
    model.eval()
    with torch.no_grad():
        for batch in counted(by_length(rows, batch_size), len(rows), "answers"):
            ids = pad_right([rows[index] for index in batch], pad_id).to(model.device)
            mask = pad_right([[1] * len(rows[index]) for index in batch], 0).to(model.device)
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


def answer_kl(
    policy: Any, reference: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad_id: int
) -> dict[str, float]:
    """Return the mean over the answers of the divergence summed over their tokens, in nats an answer.

    Args:
        answers: sampled from `policy` at temperature 1.

    Returns:
        {"kl": exact at each position, "kl_k1", "kl_k3": the two estimators, from the sampled tokens alone}."""
    import torch

    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    totals = {"kl": 0.0, "kl_k1": 0.0, "kl_k3": 0.0}
    with torch.no_grad():
        for batch in counted(by_length(rows, 64), len(rows), "divergences"):
            ids = pad_right([rows[i] for i in batch], pad_id).to(policy.device)
            mask = pad_right([[1] * len(rows[i]) for i in batch], 0).to(policy.device)
            spans = [[0] * (len(prompts[i]) - 1) + [1] * len(answers[i]) for i in batch]
            answered = pad_right(spans, 0).to(policy.device)
            start = min(len(prompts[i]) for i in batch) - 1  # no logits for what is prompt in all rows
            inputs = {"input_ids": ids, "attention_mask": mask, "logits_to_keep": ids.size(1) - start}
            p, q = (model(**inputs).logits[:, :-1] for model in (policy, reference))
            ours, theirs = (token_logprobs(logits, ids[:, start + 1 :]) for logits in (p, q))
            values = {"kl": exact(p, q), "kl_k1": k1(ours, theirs), "kl_k3": k3(ours, theirs)}
            for name, value in values.items():
                totals[name] += float((value * answered[:, start:]).sum())
    return {name: total / len(rows) for name, total in totals.items()}
