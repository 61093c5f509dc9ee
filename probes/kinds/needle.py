"""A needle in a haystack: a fact that a long context states once, asked for at its end."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar

from pydantic import Field

from argosy.core.statistics.metric import Metric, probability, share
from argosy.evidence.results.items import digest
from argosy.evidence.results.suite import locate
from argosy.model.infer.model import LanguageModel
from probes.kinds import FILLED, NATS, Measurement, PromptProbe, Scope
from probes.measures import closed_set, exclusive, grouped_continuations
from probes.sources import read_texts


@dataclass(frozen=True)
class Hidden:
    """A context with a needle in it, and what may follow it."""

    length: int
    """tokens, as asked for; the prompt has at most that many"""
    depth: float
    prompt: str
    values: tuple[str, ...]
    """the right one first"""
    sample: int


class Needle(PromptProbe):
    """Share of a needle's value among other values, by length of the context and depth of the needle (Kamradt 2023).

    Measures: acc (the right value is likeliest; equal is wrong), prob (its share among the values), nats (-log of its
    mass), chance (1 / values); `<length>/acc` and `/nats`, `depth_<per cent>/acc` and `/nats`. Lengths that the model
    or the haystack does not have are left out by name.

    The haystack is `sentences` in random order, as often as needed, or the documents of `file`, by line."""

    kind: ClassVar[str] = "needle"
    declared: ClassVar[Mapping[str, Metric]] = {
        "acc": share(chance="chance"), "prob": probability(), "nats": NATS, "chance": share("neither")}  # fmt: skip
    lengths: Annotated[tuple[Annotated[int, Field(ge=16)], ...], FILLED] = (512, 1024, 2048, 4096, 8192, 16384, 32768)
    """tokens of the prompt, needle and question among them"""
    depths: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], FILLED] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """places of the needle: 0 is the beginning, 1 right before the question"""
    needle: str = Field(pattern=r"\{value\}", title="a text with {value}", examples=["The code is {value}."])
    """sentence with {value} and, where there are several keys, {key}"""
    question: str = Field(min_length=1)
    """text after the haystack, up to where the value comes; with {key} as the needle"""
    keys: tuple[str, ...] = ("",)
    """keys of which a sample has one"""
    values: tuple[str, ...] = Field(min_length=2)
    """values of which one is hidden; a space before a value is written in it"""
    samples: int = Field(4, ge=1)
    """contexts of each length and depth"""
    sentences: tuple[str, ...] = ()
    file: str = ""
    """JSONL, .txt or .md instead of sentences"""
    joiner: str = " "
    """text between sentences"""
    plain: str = Field("{prompt}", pattern=r"\{prompt\}", title="a text with {prompt}", examples=["Q: {prompt}"])

    def check_fields(self) -> None:
        if bool(self.sentences) == bool(self.file):
            raise ValueError("give one of sentences, file")
        if not exclusive(self.values) or not all(self.sentences):
            raise ValueError(f"values is {list(self.values)}, or sentences has an empty text; allowed: texts of which "
                             "none is empty, and values of which none begins another")
        if not self.keys:
            raise ValueError("keys is empty; allowed: one key or more, or leave keys out")

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Score all values after every context."""
        result = Measurement()
        turn = self.turn(model, scope)
        cases = list(self.contexts(model, scope, result))
        pairs = [[[(case.prompt, turn.answer(value))] for value in case.values] for case in cases]
        for number, groups in grouped_continuations(model, pairs, result.left_out):
            case, logs = cases[number], [group[0].logmass for group in groups]
            _, values = closed_set(case.values, [logs])
            result.rows.append({
                "id": f"{case.length}/{case.depth:g}/{case.sample}", "length": case.length,
                "depth": case.depth, "asked": digest(case.prompt, case.values), "acc": bool(values["acc"]),
                "prob": values["prob"], "nats": -logs[0], "chance": 1 / len(logs),
                "scores": [round(each, 5) for each in logs]})  # fmt: skip
        result.add_means(self.declared)
        for field, form in (("length", "{}"), ("depth", "depth_{:.0f}")):
            for value in dict.fromkeys(row[field] for row in result.rows):
                own = [row for row in result.rows if row[field] == value]
                result.add_means(("acc", "nats"), own, form.format(value * (100 if field == "depth" else 1)))
        return result

    def contexts(self, model: LanguageModel, scope: Scope, result: Measurement) -> Iterator[Hidden]:
        """Make the contexts, a function of the probe, the tokenizer and the seed."""
        turn, hay = self.turn(model, scope), self._hay(scope, result)
        spare = max(map(len, model.encode([turn.answer(value) for value in self.values], special=False))) + 1
        for length in self.lengths:
            if length + spare > model.max_length:
                result.left_out[f"{length} tokens and a value are longer than the model ({model.max_length})"] += 1
                continue
            for depth in self.depths:
                for sample in range(min(self.samples, scope.limit or self.samples)):
                    rng = Random(f"{scope.seed}/needle/{length}/{depth}/{sample}")
                    key, (value, *others) = rng.choice(self.keys), rng.sample(self.values, len(self.values))
                    needle, question = self.needle.replace("{value}", value.strip()), self.question
                    needle, question = needle.replace("{key}", key), question.replace("{key}", key)

                    def write(body: Sequence[str], needle: str = needle, question: str = question,
                              depth: float = depth) -> str:
                        place = round(depth * len(body))
                        text = self.joiner.join([*body[:place], needle, *body[place:]])
                        return turn.prompt(text + question)

                    prompt = _filled(model, write, _drawn(hay, rng, bool(self.file), length), length)
                    if prompt:
                        yield Hidden(length, depth, prompt, (value, *others), sample)
                    else:
                        result.left_out[f"haystack or room does not fit {length} tokens"] += 1

    def _hay(self, scope: Scope, result: Measurement) -> list[str]:
        if self.sentences:
            return list(self.sentences)
        path = locate(self.file, scope.data, "a haystack")
        return [line.strip() for _, texts in read_texts(path, result.left_out) for text in texts
                for line in text.splitlines() if line.strip()]


def _drawn(hay: Sequence[str], rng: Random, once: bool, length: int) -> list[str]:
    """Draw `length` sentences at most, each a token or more: a file's lines from a random one on, in their order and
    once; others in a new random order each time round."""
    if once:
        start = rng.randrange(len(hay))
        return [*hay[start:], *hay[:start]][:length]
    drawn: list[str] = []
    while len(drawn) < length:
        drawn += rng.sample(hay, len(hay))
    return drawn[:length]


def _filled(model: LanguageModel, write: Any, hay: Sequence[str], length: int) -> str:
    """Write the longest prompt of at most `length` tokens; "" where none is, or the haystack is used up before."""

    def tokens(count: int) -> int:
        return len(model.encode([write(hay[:count])])[0])

    low, step = 0, 1
    while low + step <= len(hay) and tokens(low + step) <= length:
        low, step = low + step, 2 * step
    high = min(len(hay), low + step - 1)
    low += bisect_right(range(low + 1, high + 1), length, key=tokens)
    if tokens(low) > length or (low == len(hay) and tokens(low) < 0.9 * length):
        return ""
    return str(write(hay[:low]))
