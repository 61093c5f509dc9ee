"""Lists of options in the text of a question, which variants would otherwise leave there, and prompts of lm-eval's."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from evals.items import LETTERS, BrokenItem

_SAID = r"(?:(?:the +)?(?:correct +)?answer(?: +is)?|A|Ans|(?:正确)?答案|答)(?:是|为)?"
_CUE = re.compile(rf"(?:^|\s)\**{_SAID}\s*[:：]\s*\**\s*$", re.IGNORECASE)
_HEAD = re.compile(r"^\s*(?:question|q|题目|问题|问)\s*[:：]\s*", re.IGNORECASE | re.MULTILINE)
_ANSWERED = re.compile(rf"^\s*\**{_SAID}\s*[:：]\s*\**\s*\S", re.IGNORECASE | re.MULTILINE)
# Words before a list, and behind it: "A: Among A through D, the answer is", "答案：从A到D, 我们应选择".
_OPTIONS = re.compile(
    r"(?:^|\n|(?<=[.。?？!]))\s*(?i:(?:the |possible |answer )*(?:choices|options|answers)(?: are)?)\s*[:：]\s*$"
    r"|\s(?:Answer )?(?:Choices|Options|choices|options)\s*[:：]\s*$"
    r"|(?:从?以下)?(?:备选答案|选项)(?:中选择|如下|有|是|为)?\s*[:：]\s*$")
_BEHIND = re.compile(
    rf"[\s.。;；*]*(?:{_SAID}\s*[:：][^\n]{{0,60}}|(?:the +)?(?:correct +)?answer +is\W*"
    r"|(?:please|choose|select|pick|reply|answer|from|among|请|从|我们)[^\n]{0,80})?\s*",
    re.IGNORECASE)
CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳㉑㉒㉓㉔㉕㉖"
_LABELS = (LETTERS, LETTERS.lower(), "甲乙丙丁戊己庚辛壬癸", CIRCLED)
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_WIDE = "".join(chr(ord(letter) + 0xFEE0) for letter in LETTERS)
_ORDINALS = (*_LABELS[:3], "123456789", "0123456789", _WIDE, _ROMAN, tuple(each.upper() for each in _ROMAN))
_MARK = r"[)）\].:：、．]"
_SEPARATOR = r"[\s,，;；、.。|/]*(?:(?:and|or|和|或|还是)(?!\w))?\s*"
_ANY_LABEL = re.compile(r"\s*[(（\[][A-Z][)）\]](?!\s*(?:and|or|only|&|,|、|和|或|$))")
_NEXT = r"\W*?(?:(?:and|or|和|或|还是)(?!\w))?\W*?"
_TAIL = r"(?:[ \t]*[^\w\s?？!！(（\[])*"
_TABLE = re.compile(r"\|[ \t]*\n?$")  # the head of a table, whose rows are cut
_ROW = 24  # characters of a line of a list beside its option, at most
_FIELDS = ("choices", "options", "answers", "endings")
Split = tuple[str, tuple[str, ...]]  # question, texts of the options
LETTERS_ALONE = "options are letters, and their texts cannot be told from the question"
OUT_OF_ORDER = "options begin with labels that are not in order"
LISTED = "its question lists the options, which cannot be told from the rest of it"


def are_labels(choices: Sequence[str]) -> bool:
    """Tell whether options are letters alone: A, B, C, D; (a), (b); 甲, 乙."""
    bare = "".join(choice.strip(" ().:、．") for choice in choices)
    return len(bare) == len(choices) > 1 and any(labels.startswith(bare) for labels in _LABELS)


def without_labels(choices: Sequence[str]) -> tuple[str, ...]:
    """Strip options that begin with their labels, as "(A) foo" and "A．foo" do; others stay as they are. Raises
    BrokenItem: an option is its label alone (its text is in a table, or lost), or labels are not in order."""
    for labels in _LABELS[:3]:  # not ①, which names a part of the question
        found = [mark.match(choice) for mark, choice in zip(_marks(labels), choices, strict=False)]
        if len(found) == len(choices) and all(found):
            texts = tuple(choice[match.end() :].strip() for match, choice in zip(found, choices, strict=True) if match)
            if not all(texts) or are_labels([text.strip("$ .{}\\mathr") for text in texts]):
                raise BrokenItem(LETTERS_ALONE)
            return texts
    if sum(bool(_ANY_LABEL.match(choice)) for choice in choices) * 2 >= len(choices):
        raise BrokenItem(OUT_OF_ORDER)
    return tuple(choices)


@cache
def _marks(labels: str) -> list[re.Pattern[str]]:
    return [re.compile(rf"\s*[(（\[]?{re.escape(one)}{_MARK}") for one in labels]


def stand_in_order(question: str, choices: Sequence[str]) -> bool:
    """Tell whether all options stand in a text, in their order."""
    at = 0
    for choice in choices:
        found = re.compile(rf"(?<![A-Za-z0-9]){_loose(choice)}(?![A-Za-z0-9])").search(question, at)
        if found is None:
            return False
        at = found.end()
    return True


def without_list(question: str, choices: Sequence[str]) -> str:
    """Cut the list of the options out of a question, with their labels and the words before and behind it; options that
    are named in a sentence ("is 3 or 4 larger?") are no list.

    Raises BrokenItem: there is a list, and it has other text behind it or is of a form that cannot be cut."""
    if not stand_in_order(question, choices):
        return question
    for found in reversed([*_list_of(tuple(choices)).finditer(question)]):
        before = question[: found.start()].strip()
        lines = all("\n" in found[f"between{n}"] for n in range(1, len(choices)))
        if found["label0"] or _OPTIONS.sub("", before).strip() != before or lines:
            return _cut(question, found)
    if are_labels(choices):  # of statements in the question
        return question
    for pattern in _repeated(question, choices):
        if lists := [*pattern.finditer(question)]:
            if "=" in lists[-1]["rest"] or _TABLE.search(question[: lists[-1].start()]):
                raise BrokenItem(LISTED)
            return _cut(question, lists[-1])
    if _on_lines(question, choices):
        raise BrokenItem(LISTED)
    return question


def _cut(question: str, found: re.Match[str]) -> str:
    if not _BEHIND.fullmatch(question, found.end()):
        raise BrokenItem(LISTED)
    return _OPTIONS.sub("", question[: found.start()]).strip()


def _repeated(question: str, choices: Sequence[str]) -> Iterator[re.Pattern[str]]:
    """Yield the patterns of lists behind labels of any one form ("Option A: x", "**A** - x", "| i | x |"), and of lines
    behind one mark. Of two options more is asked, as a sentence may name both ("A (3) and B (4)")."""
    many = len(choices) > 2
    word = r"(?:[^\W\d_]{1,12} ?)?" if many else r"(?:(?i:option|choice|answer|选项|答案) ?)?"
    rest = r"\W{0,6}?" if many else r"\s*[^\w\s]{1,4}\s*"
    marks = rf"(?P<open>[^\w\s]*[ \t]?{word}[^\w\s]*)", rf"(?P<rest>{rest})"
    for ordinals in _ORDINALS:
        labels = [rf"(?<![A-Za-z0-9]){each}(?![A-Za-z0-9])" for each in ordinals[: len(choices)] if each in question]
        if len(labels) == len(choices) > 1:
            parts = [f"{marks[0]}{labels[0]}{marks[1]}{_loose(choices[0])}"]
            parts += [f"(?P=open){label}(?P=rest){_loose(choice)}"
                      for label, choice in zip(labels[1:], choices[1:], strict=True)]
            yield re.compile(_NEXT.join(parts) + _TAIL)
    lines = r"[^\w\n]*\n\s*?(?P=open)".join(map(_loose, choices))
    if "\n" in question:
        yield re.compile(rf"^[ \t]*(?P<open>(?P<rest>[^\w\n]*?)){lines}{_TAIL}[ \t]*$", re.MULTILINE)


def _on_lines(question: str, choices: Sequence[str]) -> bool:
    """Tell whether three options or more stand in lines that follow each other, with little else in each."""
    lines = [line.strip() for line in question.splitlines() if line.strip()]
    return len(choices) > 2 and any(
        all(len(line) <= len(choice) + _ROW and stand_in_order(line, [choice])
            for line, choice in zip(lines[start:], choices, strict=False))
        for start in range(len(lines) - len(choices) + 1))


def _loose(choice: str) -> str:
    return r"\s+".join(map(re.escape, choice.split()))


def _list_of(choices: tuple[str, ...]) -> re.Pattern[str]:
    """Write the pattern of a list: each option behind its label, a bullet or nothing."""
    parts = []
    for n, choice in enumerate(choices):
        labels = "|".join(re.escape(labels[n]) for labels in (*_LABELS, "123456789") if n < len(labels))
        between = rf"(?P<between{n}>{_SEPARATOR})" if n else ""
        label = rf"(?:[(（\[]?(?:{labels}){_MARK}|[-*•·–]|(?:[{CIRCLED[n]}]))\s*"
        parts.append(rf"{between}(?P<label{n}>{label})?{_loose(choice)}")
    return re.compile("".join(parts))


def without_cue(text: str) -> str:
    """Strip a prompt of "Question:" before it and "Answer:" after it, and of worked examples (TruthfulQA's): where it
    begins with "Question:", the question follows the last of these that has an answer before it."""
    bare = _CUE.sub("", text.strip())
    if not (begin := _HEAD.match(bare)):
        return bare.strip()
    start = last = begin.end()
    for head in _HEAD.finditer(bare, last):
        if _ANSWERED.search(bare[last : head.start()]):
            start = head.end()
        last = head.end()
    return bare[start:].strip()


def split_prompt(text: str, choices: Sequence[str], doc: Mapping[str, Any]) -> Split | None:
    """Split a prompt into its question and the texts of its options; None where these cannot be found.

    Options that are letters have their texts in the document (`choices`, `options`, or a field a letter), and are
    found in the prompt; where no field has them, each has to be a line of its own behind its letter. Options that
    are texts are taken out of the question where it lists them. Raises BrokenItem: as `without_list`."""
    bare = without_cue(text)
    if not are_labels(choices):
        texts = without_labels(choices)
        return without_list(bare, [each.strip() for each in texts]), texts
    labels = [choice.strip(" ().:、．") for choice in choices]
    given = _of_fields(doc, labels)
    if given:
        texts = tuple(each.strip() for each in without_labels(given))
        if (question := without_list(bare, texts)) != bare:
            return question, texts
    found = _lines(tuple(labels)).match(bare)
    if not found or (given and not all(a.strip().endswith(b) for a, b in zip(given, found.groups()[1:], strict=True))):
        return None  # a field may have "A. Paris", but nothing else than the prompt
    question = _OPTIONS.sub("", found[1].strip()).strip()
    return (question, tuple(option.strip() for option in found.groups()[1:])) if question else None


@cache
def _lines(labels: tuple[str, ...]) -> re.Pattern[str]:
    parts = [rf"\n\s*[(（\[]?{re.escape(label)}{_MARK}\s*(\S.*?)" for label in labels]
    return re.compile(rf"(.*){''.join(parts)}\s*$", re.DOTALL)


def _of_fields(doc: Mapping[str, Any], labels: Sequence[str]) -> list[str] | None:
    for name in _FIELDS:
        value = doc.get(name)
        value = value.get("text") if isinstance(value, Mapping) else value
        if isinstance(value, Sequence) and not isinstance(value, str) and _are_texts(value, len(labels)):
            return list(value)
    found = [doc.get(label) for label in labels]
    return [str(each) for each in found] if _are_texts(found, len(labels)) else None


def _are_texts(values: Sequence[Any], count: int) -> bool:
    return len(values) == count and all(isinstance(value, str) and value.strip() for value in values)
