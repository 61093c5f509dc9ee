"""Questions put to a model: log-probabilities of their options, or generated answers."""

from collections.abc import Iterator, Sequence
from itertools import compress

from argosy.corpus.data.split import derive_seed
from argosy.model.infer.model import LanguageModel, Pair
from argosy.model.infer.rows import JOINED, NO_NUMBER, TOO_LONG
from argosy.model.infer.scorer import Fit
from argosy.model.weights.chat import answer_start
from evals.answers import Answer, answer, voted
from evals.question import Question

_NO_SCORE = dict.fromkeys(Fit, NO_NUMBER) | {Fit.TOO_LONG: TOO_LONG, Fit.JOINED: JOINED}


def ask(model: LanguageModel, questions: Sequence[Question], pairs: Sequence[Sequence[Pair]], *, chat: bool,
        seed: int) -> Iterator[tuple[Answer | str, Fit]]:
    """Answer each question, or say why there is no answer, with how much of it fits. `pairs`: `pairs_of` each."""
    each_fit = iter(model.fit(*flat(pairs)))
    fits = [max((next(each_fit) for _ in each), default=Fit.WHOLE) for each in pairs]  # the worst of a question's pairs
    return zip(_answers(model, questions, pairs, fits, chat, seed), fits, strict=True)


def pairs_of(question: Question, model: LanguageModel, chat: bool) -> list[Pair]:
    """List (context, continuation) of each option; none where the answer is generated."""
    if question.generation is not None:
        return []
    if not chat:
        return [(prompt, question.before + text) for prompt, text in question.requests]
    start = answer_start(model.render)
    return [(model.chat(prompt), start + text) for prompt, text in question.requests]


def flat(pairs: Sequence[Sequence[Pair]]) -> tuple[list[Pair], list[int]]:
    """List the pairs of all questions, and the number of the question of each."""
    return [pair for each in pairs for pair in each], [number for number, each in enumerate(pairs) for _ in each]


def _answers(
    model: LanguageModel, questions: Sequence[Question], pairs: Sequence[Sequence[Pair]], fits: Sequence[Fit],
    chat: bool, seed: int,
) -> Iterator[Answer | str]:  # fmt: skip
    scores = iter(model.loglikelihood(*flat(pairs)))
    texts = _generated(model, questions, chat, seed)
    for number, (question, each) in enumerate(zip(questions, pairs, strict=True)):
        values = [next(scores).logprob for _ in each]
        if question.generation is None:
            yield answer(question, values) or _NO_SCORE[fits[number]]
        else:
            yield voted(question, texts[number]) if number in texts else "prompt and answer are longer than the model"


def _generated(model: LanguageModel, questions: Sequence[Question], chat: bool, seed: int) -> dict[int, list[str]]:
    """Generate the answers, by the question's number, those of equal settings together; none where prompt and answer
    are longer than the model: without its beginning it is another question."""
    groups: dict[tuple[tuple[str, ...], int, int, float], list[int]] = {}
    for number, question in enumerate(questions):
        if (about := question.generation) is not None:
            settings = (about.stops, about.max_tokens, about.samples, about.temperature)
            groups.setdefault(settings, []).append(number)
    texts: dict[int, list[str]] = {}
    for (stops, max_tokens, samples, temperature), chosen in groups.items():
        prompts = [questions[number].prompt for number in chosen]
        prompts = [model.chat(prompt) for prompt in prompts] if chat else prompts
        room = model.has_room(prompts, max_tokens)
        chosen, prompts = list(compress(chosen, room)), list(compress(prompts, room))
        each = [prompt for prompt in prompts for _ in range(samples)]
        seeds = [derive_seed("samples", seed, prompt, n) for prompt in prompts for n in range(samples)]
        found = model.generate(each, stops, max_tokens, temperature=temperature, seeds=seeds)
        texts |= {number: found[at * samples :][:samples] for at, number in enumerate(chosen)}
    return texts
