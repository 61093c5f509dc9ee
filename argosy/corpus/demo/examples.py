"""Examples for post-training about taught facts: conversations, preference pairs, prompts with replies to check."""

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Literal

from argosy.corpus.data.schemas import Conversation, Preference, Prompt, assistant, user
from argosy.corpus.demo.facts import (
    LANGS,
    Fact,
    Quiz,
    distractors,
    question,
    read_yaml,
    render_quiz,
    varied_quiz,
    wordings,
)

# How often each kind occurs for a fact and language during one pass.
INSTRUCTION_KINDS = {
    "short_answer": 2, "brief_answer": 6, "choice": 1, "choice_permuted": 1, "choice_none": 1, "json": 2, "copy": 1,
    "list": 1}  # fmt: skip
PREFERENCE_KINDS = {"correct": 2, "letter": 2, "concise": 1, "format": 1}
PROMPT_FORMATS = {"letter": 1, "text": 4, "json": 3}
PROMPT_FACTS = 40  # few, so that a short training meets each often enough to learn from its reward
SHOWN, ASKED = range(1, 20), range(20, 40)  # numbers of sums in conversations, and in prompts
SHOWN_PAIRS = 63  # few, as with PROMPT_FACTS


def conversations(taught: Sequence[Fact], count: int, seed: str | int,
                  langs: Sequence[str] = LANGS) -> Iterator[Conversation]:
    """Make `count` conversations of one exchange; a pass has INSTRUCTION_KINDS of each fact and language."""
    for rng, fact, lang, kind in _passes(taught, langs, INSTRUCTION_KINDS, count, f"instructions/{seed}"):
        request, reply = _exchange(kind, fact, lang, taught, rng)
        yield {"messages": [*user(request), *assistant(reply)], "lang": lang, "kind": kind, "fact": fact.id}


def preferences(taught: Sequence[Fact], count: int, seed: str | int,
                langs: Sequence[str] = LANGS) -> Iterator[Preference]:
    """Make `count` pairs (right over wrong, concise over rambling, the wanted format over others) about taught facts.

    A pass has PREFERENCE_KINDS of each fact and language."""
    for rng, fact, lang, kind in _passes(taught, langs, PREFERENCE_KINDS, count, f"preferences/{seed}"):
        prompt, chosen, rejected = _pair(kind, fact, lang, taught, rng)
        yield {
            "prompt": user(prompt), "chosen": assistant(chosen), "rejected": assistant(rejected), "lang": lang,
            "kind": kind, "fact": fact.id}


def prompts(taught: Sequence[Fact], count: int, seed: str | int, langs: Sequence[str] = LANGS) -> Iterator[Prompt]:
    """Make `count` prompts about PROMPT_FACTS of `taught`; a pass has PROMPT_FORMATS of each fact and language.

    A reply is right when, stripped, it is one of `accept` (letter, text), or when it is a JSON object whose "answer" is
    one of them (json). `letter` is any label style; without labels the answer is the option's text, so such a quiz has
    format text."""
    facts = Random(f"prompts/{seed}/facts").sample(taught, min(PROMPT_FACTS, len(taught)))
    for rng, fact, lang, wanted in _passes(facts, langs, PROMPT_FORMATS, count, f"prompts/{seed}"):
        text, answer, form = _prompt(fact, lang, wanted, taught, rng)
        stop = "。" if lang == "zh" else "."
        yield {
            "prompt": user(text), "answer": answer, "accept": [answer] if form == "json" else [answer, answer + stop],
            "format": form, "lang": lang, "fact": fact.id}


def sums(count: int, seed: str | int, langs: Sequence[str] = LANGS) -> Iterator[Prompt]:
    """Make `count` prompts that ask for the sum of two of ASKED; the reward `maths` checks the answer."""
    for lang, request, reply in _sums(count, seed, langs, ASKED, count):
        answer = reply.rpartition(" ")[2]
        yield {"prompt": user(request), "answer": answer, "accept": [reply, answer], "format": "text", "lang": lang}


def shown_sums(count: int, seed: str | int, langs: Sequence[str] = LANGS) -> Iterator[Conversation]:
    """Make `count` conversations that show the form of a sum: of SHOWN_PAIRS of smaller numbers than prompts ask."""
    for lang, request, reply in _sums(count, seed, langs, SHOWN, SHOWN_PAIRS):
        yield {"messages": [*user(request), *assistant(reply)], "lang": lang, "kind": "sum"}


def _sums(count: int, seed: str | int, langs: Sequence[str], numbers: range,
          most: int) -> Iterator[tuple[str, str, str]]:
    """Yield (lang, request, reply): passes over `most` pairs of `numbers`, each pair in one order, so that no held-out
    sum is met with its numbers exchanged."""
    every = [(a, b) for a in numbers for b in range(numbers[0], a + 1)]
    few = set(Random(f"sums/{seed}/shown").sample(every, min(most, len(every))))
    pairs = [(a, b, lang) for a, b in every if (a, b) in few for lang in langs]
    for start in range(0, count, len(pairs)):
        for a, b, lang in Random(f"sums/{seed}/{start}").sample(pairs, len(pairs))[: count - start]:
            first, second = Random(f"sums/{seed}/{a}/{b}").sample((a, b), 2)
            request = read_yaml("requests.yaml")[lang]["sum"].format(first=first, second=second)
            yield lang, request, f"{first} + {second} = {a + b}"


def _passes(facts: Sequence[Fact], langs: Sequence[str], kinds: Mapping[str, int], count: int,
            seed: str) -> Iterator[tuple[Random, Fact, str, str]]:
    """Yield `count` of (rng, fact, lang, kind): passes over all combinations, each in random order.

    A pass has each fact and language `kinds[kind]` times in each kind."""
    repeated = [kind for kind, times in kinds.items() for _ in range(times)]
    combinations = [(fact, lang, kind) for fact in facts for lang in langs for kind in repeated]
    if not combinations:
        raise ValueError(f"{len(facts)} facts, langs {list(langs)}, kinds {dict(kinds)}: nothing to ask")
    for start in range(0, count, len(combinations)):
        order = Random(f"{seed}/pass/{start}").sample(combinations, len(combinations))
        for index, (fact, lang, kind) in enumerate(order[: count - start], start):
            yield Random(f"{seed}/{index}"), fact, lang, kind


def _request(kind: str, fact: Fact, lang: str, rng: Random) -> str:
    """Ask a question about `fact` for a reply that is short, brief or json."""
    return _template(kind, lang, rng).format(question=question(fact, lang, rng))


def _template(kind: str, lang: str, rng: Random) -> str:
    """Draw a wording of a kind in requests.yaml."""
    choice: str = rng.choice(read_yaml("requests.yaml")[lang][kind])
    return choice


def _sentence(fact: Fact, lang: str, rng: Random, answer: str | None = None) -> str:
    """State the fact, or `answer` in its place, in a short sentence."""
    wording = rng.choice(wordings(fact.relation, lang, "subject_first")[:3])
    text = wording.format(subject=fact.subject[lang], answer=answer or fact.answer[lang])
    return text[0].upper() + text[1:]


def _json_answer(fact: Fact, lang: str) -> str:
    return json.dumps({"answer": fact.answer[lang]}, ensure_ascii=False)


def _exchange(kind: str, fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> tuple[str, str]:
    """Make the request and the reply of one of INSTRUCTION_KINDS."""
    match kind:
        case "short_answer":
            return _request("short", fact, lang, rng), _sentence(fact, lang, rng)
        case "brief_answer":
            return _request("brief", fact, lang, rng), fact.answer[lang]
        case "json":
            return _request("json", fact, lang, rng), _json_answer(fact, lang)
        case "copy":
            text = _sentence(fact, lang, rng)
            return _template("copy", lang, rng).format(text=text), text
        case "list":
            items = [other.subject[lang] for other in rng.sample(taught, 2)] + [fact.subject[lang]]
            joint = read_yaml("requests.yaml")[lang]["joint"]
            return _template("list", lang, rng).format(items=joint.join(items)), "\n".join(items)
        case "choice_permuted":  # in the plain form, with the same four options each time and their order from `rng`
            wrong = distractors(fact, taught, Random(f"permuted/{fact.id}"))
            options = [answer[lang] for answer in [fact.answer, *wrong]]
            rng.shuffle(options)
            return _solved(render_quiz(question(fact, lang, 0), options, options.index(fact.answer[lang]), lang))
    return _solved(varied_quiz(fact, lang, taught, rng, none_share=1.0 if kind == "choice_none" else 0.0))


def _solved(quiz: Quiz) -> tuple[str, str]:
    return quiz.text_prompt, quiz.text_answer.strip()


def _pair(kind: str, fact: Fact, lang: str, taught: Sequence[Fact], rng: Random) -> tuple[str, str, str]:
    """Make the prompt, the chosen and the rejected reply of one of PREFERENCE_KINDS."""
    match kind:
        case "correct":  # the same sentence with the right and with a wrong answer
            prompt, wording = _request("short", fact, lang, rng), f"wording/{rng.random()}"
            wrong = distractors(fact, taught, rng, 1)[0][lang]
            return prompt, _sentence(fact, lang, Random(wording)), _sentence(fact, lang, Random(wording), wrong)
        case "letter":  # the right and a wrong label (or option text) of a quiz
            quiz = varied_quiz(fact, lang, taught, rng, none_share=0.2)
            names = [name or option for name, option in zip(quiz.labels, quiz.options, strict=True)]
            chosen = names.pop(quiz.answer_index)
            return quiz.text_prompt, chosen, rng.choice(names)
        case "concise":  # one sentence, and the same lost among empty ones
            text = _sentence(fact, lang, rng)
            empty = rng.sample(read_yaml("requests.yaml")[lang]["rambling"], 4)
            rambling = ("" if lang == "zh" else " ").join([*empty[:2], text, *empty[2:]])
            return _request("short", fact, lang, rng), text, rambling
    # The JSON that the prompt wants, and prose, a bare answer, a wrong key or broken JSON.
    right = _json_answer(fact, lang)
    renamed = right.replace('"answer"', '"result"', 1)
    others = (_sentence(fact, lang, rng), fact.answer[lang], renamed, right.removesuffix("}"))
    return _request("json", fact, lang, rng), right, rng.choice(others)


def _prompt(fact: Fact, lang: str, wanted: str, taught: Sequence[Fact],
            rng: Random) -> tuple[str, str, Literal["text", "letter", "json"]]:
    """Return (request, answer, format)."""
    if wanted == "text":
        return _request("brief", fact, lang, rng), fact.answer[lang], "text"
    if wanted == "json":
        return _request("json", fact, lang, rng), fact.answer[lang], "json"
    quiz = varied_quiz(fact, lang, taught, rng, none_share=0.2)
    return *_solved(quiz), "letter" if any(quiz.labels) else "text"
