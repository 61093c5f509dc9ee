"""Labels of options, and how they stand in a text: which one an answer chooses, denies or leaves open."""

import re
from collections.abc import Collection
from functools import cache

# Words that announce an answer. "Option A" and "to choose A" announce none: much is said of an option.
_IS = r"(?:is|are|(?:would|should|must|will|has\s+to|have\s+to)\s+be)"
STATED = (
    rf"(?:(?i:answers?\s*(?:\s{_IS}|[:：])(?:\s*(?:option|choice)\b)?|(?:option|choice)s?\s+(?:{_IS}|[:：]))"
    r"|(?i:\bI(?:['’](?:d|ll)|\s+would|\s+will)?\s+(?:choose|pick|select))|\\boxed\s*\{"
    r"|答案\s*(?:应?该?[是为选])?|选项\s*[是为]|(?<!不)正确的\s*[是为]"
    r"|(?:^|[我故应，。；,;\s]|因此|所以|[本此]题|综上(?:所述)?)(?:应该?)?选择?)")
# And those that follow a label: "B is the correct answer"; as a conclusion alone, "Therefore, B is correct", since an
# analysis calls options correct that are not chosen ("Which is false?").
_CONCLUDES = r"(?:(?i:\b(?:so|thus|hence|therefore|consequently|in\s+conclusion))\b|所以|因此|故|综上(?:所述)?)"
_MUST_BE = r"(?i:is|(?:must|would)\s+be)\s+"
_IS_RIGHT = rf"(?:{_MUST_BE}(?i:(?:the\s+)?(?:only\s+)?(?:correct|right|best))\b|项?是?(?:正确|对)的?)"
_IS_ANSWER = rf"{_MUST_BE}(?i:the\s+(?:only\s+)?(?:(?:correct|right|best)\s+)?(?:answer|option|choice))\b"
# Marks that may stand before a label, behind it, and between two of which one is right.
OPEN = r"[\s:：*\"'“‘(（\[【{$]{0,20}"
_JOINS = r"\s*(?:(?:[,，]\s*)?and\b|[,，、;；&+]|和|与|及|以及)?\s*"
_BETWEEN = rf"(?:[)）\]】]{_JOINS}[(（\[【]|{_JOINS})"  # labels that are said together; "(B) A dog" says one
_CLOSE = r"[\s*\"'”’)）\]】}$]{0,9}"
_OR = r"(?:or\b|或者?|还是)"
_AND = rf"(?:(?:,\s*)?and\b|[、和与及]|{_OR})"
# "The answer is D, A and B are wrong" is no list of three.
_NOT_STATED = r"(?<!is )(?<!are )(?<!be )(?<!: )(?<![是为选案：])"
# Words that deny a label: before it, and behind it.
_NOT = (
    r"(?:(?i:(?:\bnot|n['’]t|\bnever|\bcannot)\s+(?:be\s+)?(?:(?:choose|pick|select)\s+)?(?:the\s+)?(?:(?:option|answer)s?)?)"
    r"|(?i:\b(?:rul(?:e|es|ed|ing)\s+out|exclud(?:e|es|ed|ing)|eliminat(?:e|es|ed|ing))\s+(?:(?:option|answer)s?)?)"
    r"|(?:不(?:会|能|可|可以|要|应|应该|该)?(?:选择?|是|为)|排除)(?:选项)?)")
_WRONG = (
    r"(?:(?i:(?:is|are)\s+(?:both\s+|also\s+|clearly\s+)?(?:incorrect|wrong|false))"
    r"|(?i:(?:is|are)(?:n['’]t|\s+not)\s+(?:the\s+)?(?:correct|right|true|answer))"
    r"|(?:选?项)?(?:都|均|也|皆|是|显然|明显)*(?:不对|不正确|不是|不符|不选|错|有误|排除|可排除))")

_NEXT = re.compile(r"\n\s*(?:(?i:question)|题目|问题)\s*\d*\s*[:：]")
_WIDE = {place: place - 0xFEE0 for span in ("０９", "ＡＺ", "ａｚ") for place in range(ord(span[0]), ord(span[1]) + 1)}
_MACRO = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")


def readable(text: str, labels: str) -> str:
    """Write labels as `labels` has them, where a text has them in full width, in a macro of LaTeX, or as small letters
    that are no words: alone ("b", "(b)"), before the text of an option ("b) Paris") or stated ("The answer is (b)").
    Doing it twice changes nothing."""
    text = _MACRO.sub(r"\1", text.translate(_WIDE))
    small = "".join(one.lower() for one in labels if "A" <= one <= "Z" and one.lower() not in labels)
    for pattern in _small_patterns(small) if small else ():
        text = pattern.sub(lambda found: _raised(found, small), text)
    return text


def _raised(found: re.Match[str], small: str) -> str:
    """Raise the letters of a run of small labels, but of a word: "ac" is two labels, "bad" is none."""
    run = found["run"]
    letters = [one for one in re.sub("and", "", run) if one in small]
    if run.isalpha() and run.isascii() and letters != sorted(set(letters)):
        return found[0]
    raised = re.sub(f"and|[{small}]", lambda one: one[0] if one[0] == "and" else one[0].upper(), run)
    return found[0][: found.start("run") - found.start()] + raised + found[0][found.end("run") - found.start() :]


@cache
def _small_patterns(small: str) -> tuple[re.Pattern[str], ...]:
    one = f"[{small}]"
    run = rf"(?P<run>{one}(?:{_BETWEEN}{one})*)"
    words = "".join(sorted({"a", "i"} & set(small)))  # "The answer is a" may go on
    word = rf"(?!(?<![(（\[【{{\"'“‘*是为选案项：])[{words}](?:\s*\Z|[ \t]+(?!and\b)[A-Za-z]))" if words else ""
    return (re.compile(rf"\A{OPEN}{run}{_CLOSE}[.。]?\s*\Z"),
            re.compile(rf"\A\s*[(（\[]?(?P<run>{one})[)）\].:：、．](?=\s|$)"),
            re.compile(rf"{STATED}{OPEN}{word}{run}(?![A-Za-z0-9'’])"))


def label(labels: str, *, alone: bool) -> str:
    """Write a pattern of one of `labels` that no letter or ideograph of a word follows, and `alone`: nor precedes."""
    latin = "".join(one for one in labels if one.isascii() and one.isalnum())
    words = "".join(one for one in labels if not one.isascii() and one.isalnum())
    marks = "".join(one for one in labels if not one.isalnum())
    # "A dog" is no label, also after "Answer:"; nor is "I think". "A because" is one.
    articles = "".join(one for one in "AI" if one in latin)
    goes_on = r"(?!(?:because|since|as|and|or|is|but)\b)"
    article = rf"(?![{articles}]\s+{goes_on}[A-Za-z])" if articles else ""
    before_latin, before_word = (r"(?<![A-Za-z0-9])", r"(?<!\w)") if alone else ("", "")
    parts = [rf"{before_latin}{article}[{latin}](?![A-Za-z0-9'’])"] if latin else []
    parts += [rf"{before_word}[{words}](?!\w)"] if words else []
    parts += [f"[{re.escape(marks)}]"] if marks else []
    return f"(?:{'|'.join(parts)})"


def denied(text: str, labels: str) -> set[int]:
    """Find the places of the labels that the text denies: "not A", "A and B are wrong", "不选A", "A错"."""
    one, denials = _denials(labels)
    return {
        found.start() for run in denials.finditer(text) for found in one.finditer(text, *run.span(run.lastgroup or 0))}


def undecided(text: str, labels: str) -> set[int]:
    """Find the places of the labels behind which another one stands as possible: "B or C", "B或C"."""
    return {found.start() for found in _alternatives(labels).finditer(text) if found[1] != found[2]}


def said_after_a_list(text: str, labels: str, wrong: Collection[int]) -> str | None:
    """Find the "D" of "Answer: A, B and C are wrong. D". The statement there may be "A" or nothing, and the label alone
    at the text's end decides: without one, as in "The answer is D, A and B are wrong", it is the first (None). "" where
    the end is a few words more ("Vitamin D"), which may be either.

    `wrong`: places of labels that are denied."""
    found = _last_word(labels).search(text)
    if not found or found["last"] in found["list"] or found.start("last") in wrong:
        return None
    return str(found["last"]) if found["then"] is not None else ""


def before_next_question(text: str, labels: str) -> str:
    """Cut the text where a model goes on with another question of its own, if a label stands before that: an answer
    to its question is none to ours."""
    found = _NEXT.search(text)
    before = text[: found.start()] if found else text
    several = rf"(?<!\w)[{re.escape(labels)}]{{2,}}(?!\w)"
    return before if re.search(f"{label(labels, alone=True)}|{several}", before) else text


@cache
def _last_word(labels: str) -> re.Pattern[str]:
    after = label(labels, alone=False)
    several = rf"{after}(?:{_CLOSE}[,，]{OPEN}{after}){{1,3}}{_CLOSE}{_AND}{OPEN}{after}"
    then = r"(?P<then>(?:(?i:so|thus|hence|therefore|it\s+is|it['’]s)\b|所以|因此|故|应?[是为]|[\s.。,，;；])*)"
    words = r"[\s.。;；]*[.。;；\n][^.。;；\n]{1,40}?(?<!so is )(?<!So is )(?<!nor is )(?<!Nor is )(?<=[\s(（])"
    last = rf"(?P<last>{label(labels, alone=True)}){_CLOSE}[\s.。!]*$"
    return re.compile(rf"{STATED}{OPEN}(?P<list>{several}){_CLOSE}{_WRONG}(?:{then}{OPEN}|{words}){last}")


@cache
def _denials(labels: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    after, alone = label(labels, alone=False), label(labels, alone=True)
    more = rf"(?:{_CLOSE}{_AND}{OPEN}{after}){{0,3}}"
    several = rf"{_NOT_STATED}{alone}(?:{_CLOSE}[,，]{OPEN}{after}){{1,3}}{_CLOSE}{_AND}{OPEN}{after}"
    denials = rf"{_NOT}{OPEN}(?P<not>{after}{more})|(?P<wrong>{several}|{alone}{more}){_CLOSE}{_WRONG}"
    return re.compile(after), re.compile(denials)


@cache
def _alternatives(labels: str) -> re.Pattern[str]:
    after = label(labels, alone=False)
    return re.compile(rf"({after})(?={_CLOSE}{_OR}{OPEN}({after}))")


def chosen_label(text: str, labels: str, *, stated_alone: bool = False) -> str | None:
    """Return the label that a text chooses, or None: a stated one (the last) goes before the one that the text begins
    with, and that before the only one that stands alone in it.

    One that the text denies ("not A", "A is wrong", "不选A") is none of them; "B or C" is no answer, nor are several
    ("A and C"), nor is what follows a next question. `stated_alone`: only a stated one."""
    stated, first, alone = _patterns(labels)
    text = readable(text, labels)
    text = before_next_question(text, labels)
    wrong, open_ = denied(text, labels), undecided(text, labels)
    found = [said for said in stated.finditer(text) if said.start(1) not in wrong]
    if found and (last := said_after_a_list(text, labels, wrong)) is not None:
        return last or None
    if found:
        start = found[-1].start(1)
        return None if start in open_ or _is_list(text, start, labels, wrong) else found[-1][1]
    if stated_alone:
        return None
    begins = first.match(text)
    if begins and begins.start(1) not in wrong | open_:
        return None if _is_list(text, begins.start(1), labels, wrong) else begins[1]
    standing = set(alone.findall(text)) - {text[place] for place in wrong}
    return str(standing.pop()) if len(standing) == 1 else None


def _is_list(text: str, start: int, labels: str, wrong: Collection[int]) -> bool:
    """Tell whether several labels that are not `wrong` stand together from `start` on, of which the last does not begin
    a clause ("C, A fails")."""
    found = _list(labels).match(text, start)
    right = {text[at] for at in range(start, found.end()) if text[at] in labels and at not in wrong} if found else set()
    return len(right) > 1


@cache
def _list(labels: str) -> re.Pattern[str]:
    one, joins = f"[{re.escape(labels)}]", r"[)）\]】]?\s*(?:(?:[,，]\s*)?and\b|[,，、&+]|和|与|及|以及)\s*[(（\[【]?"
    return re.compile(rf"{one}(?:{joins}{one})+(?![A-Za-z0-9])(?!\s+(?!(?:because|since|as|are)\b)[a-z])")


@cache
def _patterns(labels: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    after, alone = label(labels, alone=False), label(labels, alone=True)
    concludes = rf"{_CONCLUDES}[,，:：]?\s*(?:(?i:option|choice|answer)|选?项)?{OPEN}(?={after}{_CLOSE}{_IS_RIGHT})"
    stated = f"(?:{STATED}{OPEN}|{concludes}|(?={alone}{_CLOSE}{_IS_ANSWER}))({after})"
    return re.compile(stated), re.compile(f"{OPEN}({alone})"), re.compile(f"({alone})")


def chosen_labels(text: str, labels: str, wrong: Collection[int] = (), *, stated_alone: bool = False) -> str | None:
    """Return the labels of the last run of them that a text states ("答案是A、C"), else of the run that it begins with,
    in the order of `labels`, or None.

    `wrong`: places in the text of labels that count nothing, such as those that are denied. `stated_alone`: without a
    statement there are none."""
    stated, first = _run_patterns(labels)
    text = readable(text, labels)
    text = before_next_question(text, labels)
    said = [*stated.finditer(text)]
    found = said[-1] if said else None if stated_alone else first.match(text)
    if found is None:
        return None
    run = re.sub("and", "   ", found[1])
    chosen = {one for place, one in enumerate(run, found.start(1)) if place not in wrong}
    return "".join(one for one in labels if one in chosen)


@cache
def _run_patterns(labels: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    one = f"[{re.escape(labels)}]"
    run = rf"({one}(?:{_BETWEEN}{one})*)(?![A-Za-z0-9])"
    return re.compile(f"{STATED}{OPEN}{run}"), re.compile(f"{OPEN}{run}")
