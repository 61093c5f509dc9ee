"""Held-out texts that are made by rules: encyclopaedia, logic, code and mathematics, in English and in Chinese.

    python -m evals.heldout_texts --seed 7 > mine.jsonl        # the suite general has those of seed 0

Names are invented and numbers drawn, so a new seed is in no training data. A model that follows a text can predict
much of it: facts are repeated, conclusions follow, and what programs print and sums are is right."""

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import yaml

_WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
BYTES = 24_000  # UTF-8 bytes of a channel
_SYLLABLES = {"en": ("ba", "del", "fir", "gon", "hal", "ki", "lor", "mun", "nes", "dov", "pra", "quil", "ras", "sto",
                     "tul"),
              "zh": "巴德菲贡哈基洛蒙内奥普奎拉斯图维文约赞"}
Part = Callable[[Random, str], str]


def texts(seed: int, size: int = BYTES) -> Iterator[dict[str, str]]:
    """Yield a record a document, `size` bytes or a little more of each channel; a function of seed and size."""
    for lang in ("en", "zh"):
        for channel, kinds in CHANNELS.items():
            written, number = 0, 0
            while written < size:
                rng = Random(f"{seed}/{channel}/{lang}/{number}")
                text = kinds[number % len(kinds)](rng, lang)
                yield {"id": f"{channel}_{lang}/{number}", "channel": f"{channel}_{lang}", "lang": lang, "text": text}
                written, number = written + len(text.encode()), number + 1


def _names(rng: Random, lang: str, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choices(_SYLLABLES[lang], k=rng.randint(2, 4))).capitalize()] = None
    return list(found)


def _entry(rng: Random, sentences: Sequence[Sequence[str]], lang: str, **values: object) -> str:
    """Write one of the forms of each sentence."""
    joint = "" if lang == "zh" else " "
    return joint.join(rng.choice(forms).format(**values) for forms in sentences)


def _town(rng: Random, lang: str) -> str:
    a, b, c, d = _names(rng, lang, 4)
    trade, other = rng.sample(_WORDS["trades"][lang], 2)
    year, span, people = rng.randint(1100, 1700), rng.randint(60, 280), rng.randint(2_000, 90_000)
    part, side = rng.randint(people // 9, people // 2), rng.choice(_WORDS["sides"][lang])
    return _entry(rng, _WORDS["town"][lang], lang, a=a, b=b, c=c, d=d, trade=trade, other=other, year=year, span=span,
                  end=year + span, people=people, part=part, rest=people - part, arches=rng.randint(3, 12), side=side)


def _scholar(rng: Random, lang: str) -> str:
    a, b, c, d = _names(rng, lang, 4)
    field, things = rng.choice(_WORDS["fields"][lang])
    year, life, age = rng.randint(1400, 1850), rng.randint(48, 95), rng.randint(3, 9)
    return _entry(rng, _WORDS["scholar"][lang], lang, a=a, b=b, c=c, d=d, field=field, things=things, year=year,
                  life=life, age=age, end=year + life, left=year + rng.randint(16, 30), count=rng.randint(2, 14),
                  years=rng.randint(3, 17), objects=rng.randint(40, 900))


def _syllogisms(rng: Random, lang: str) -> str:
    a, b, c, x, y = (name if lang == "zh" else name.lower() for name in _names(rng, lang, 5))
    x, y = x.capitalize(), y.capitalize()
    steps = ([f"Every {a} is a {b}, and no {b} is a {c}.", f"{x} is a {a}, so {x} is a {b}, and {x} is not a {c}.",
              f"{y} is a {c}, so {y} is not a {b}, and therefore {y} is not a {a} either.",
              f"Whether every {b} is a {a} cannot be said: it may be that some {b} is not a {a}.",
              f"That no {c} is a {a} does follow, because every {a} is a {b} and no {b} is a {c}."]
             if lang == "en" else
             [f"所有的{a}都是{b}，没有一个{b}是{c}。", f"{x}是{a}，所以{x}是{b}，而且{x}不是{c}。",
              f"{y}是{c}，所以{y}不是{b}，因此{y}也不是{a}。",
              f"是不是所有的{b}都是{a}，无法断定：可能有的{b}不是{a}。",
              f"没有一个{c}是{a}，这可以推出，因为所有的{a}都是{b}，而没有一个{b}是{c}。"])
    return ("" if lang == "zh" else " ").join([steps[0], *rng.sample(steps[1:], 4)])


def _truth_table(rng: Random, lang: str) -> str:
    x, y = _names(rng, lang, 2)
    en = lang == "en"
    p, q = (f"{x} sleeps", f"{y} sings") if en else (f"{x}在睡觉", f"{y}在唱歌")
    says = {True: "true", False: "false"} if en else {True: "真", False: "假"}
    lines = [f"Let p be \"{p}\" and q be \"{q}\"." if en else f"设p为“{p}”，q为“{q}”。"]
    for a, b in rng.sample([(a, b) for a in (True, False) for b in (True, False)], 4):
        values = [says[v] for v in (a, b, a and b, a or b, not a or b, a == b)]
        form = ("If p is {} and q is {}, then \"p and q\" is {}, \"p or q\" is {}, \"if p then q\" is {}, and "
                "\"p exactly if q\" is {}." if en else
                "若p为{}、q为{}，则“p且q”为{}，“p或q”为{}，“若p则q”为{}，“p当且仅当q”为{}。")
        lines.append(form.format(*values))
    return "\n".join(lines)


def _order(rng: Random, lang: str) -> str:
    names = _names(rng, lang, 5)
    more, most, least = rng.choice(_WORDS["ranks"][lang])
    pairs = [*pairwise(names)]
    rng.shuffle(pairs)
    if lang == "en":
        said = " ".join(f"{a} is {more} than {b}." for a, b in pairs)
        return (f"{said} From the {most} to the {least} they are {', '.join(names)}. So the {most} is {names[0]}, the "
                f"{least} is {names[-1]}, and {names[2]} is in the middle. {names[1]} is {more} than {names[3]}.")
    said = "".join(f"{a}比{b}{more}。" for a, b in pairs)
    return (f"{said}从最{most}到最{least}依次是{'、'.join(names)}。所以最{most}的是{names[0]}，"
            f"最{least}的是{names[-1]}，{names[2]}排在中间。{names[1]}比{names[3]}{more}。")


def _program(rng: Random, lang: str) -> str:
    """Write a program, with what it prints as a comment."""
    f, v, *words = (name.lower() for name in _names(rng, "en", 6))
    english, chinese, code = rng.choice(_WORDS["programs"])
    numbers = [rng.randint(1, 60) for _ in range(rng.randint(5, 8))]
    values = {"f": f"{f}_{v}", "v": v, "n": rng.randint(2, 9), "list": numbers, "big": rng.randint(90, 900),
              "words": words}
    source = code.format(**values)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(source, {})  # of our own file
    about = (english if lang == "en" else chinese).format(**values)
    says = "Prints:" if lang == "en" else "输出："
    return f"# {about}\n{source}\n# {says}\n" + "".join(f"# {line}\n" for line in printed.getvalue().splitlines())


def _product(rng: Random, lang: str) -> str:
    a, b = rng.randint(21, 999), rng.randint(12, 99)
    tens, ones = b // 10 * 10, b % 10
    steps = f"{a} × {b} = {a} × {tens} + {a} × {ones} = {a * tens} + {a * ones} = {a * b}"
    half, more = Fraction(a * b, 2), a * b + a
    if lang == "en":
        return (f"To multiply {a} by {b}, split {b} into {tens} and {ones}. Then {steps}. To check, divide: {a * b} ÷ "
                f"{b} = {a}. Half of the product is {half}, and {a * b} + {a} = {more}, which is {a} × {b + 1}.")
    return (f"计算{a}乘以{b}，先把{b}分成{tens}和{ones}，则{steps}。验算：{a * b} ÷ {b} = {a}。"
            f"积的一半是{half}；又{a * b} + {a} = {more}，它等于{a} × {b + 1}。")


def _equation(rng: Random, lang: str) -> str:
    x, a, b = rng.randint(12, 400), rng.randint(3, 60), rng.randint(13, 900)
    c = a * x + b
    if lang == "en":
        return (f"Solve {a}x + {b} = {c}. Subtract {b} from both sides: {a}x = {c} - {b} = {c - b}. Divide by {a}: "
                f"x = {c - b} ÷ {a} = {x}. Put it in: {a} × {x} + {b} = {a * x} + {b} = {c}, so x = {x} is right.")
    return (f"解方程{a}x + {b} = {c}。两边减去{b}，得{a}x = {c} - {b} = {c - b}。"
            f"两边除以{a}，得x = {c - b} ÷ {a} = {x}。代入检验：{a} × {x} + {b} = {a * x} + {b} = {c}，"
            f"所以x = {x}正确。")


def _sales(rng: Random, lang: str) -> str:
    name, other = _names(rng, lang, 2)
    n, price, more = rng.randint(12, 80), rng.randint(3, 25), rng.randint(2, 11)
    total, rest, lamps = n * price, (n + more) * price, n + more
    if lang == "en":
        return (f"{name} sells {n} lamps for {price} coins each and so earns {n} × {price} = {total} coins. {other} "
                f"sells {more} lamps more at the same price: {n} + {more} = {lamps} lamps, and {lamps} × {price} "
                f"= {rest} coins. {other} earns {rest} - {total} = {rest - total} coins more, which is {more} × "
                f"{price}. Together they earn {total} + {rest} = {total + rest} coins.")
    return (f"{name}卖出{n}盏灯，每盏{price}元，收入{n} × {price} = {total}元。{other}以同样的价格多卖{more}盏："
            f"{n} + {more} = {lamps}盏，收入{lamps} × {price} = {rest}元。{other}比{name}多收入"
            f"{rest} - {total} = {rest - total}元，正好是{more} × {price}。"
            f"两人一共收入{total} + {rest} = {total + rest}元。")


CHANNELS: dict[str, tuple[Part, ...]] = {
    "encyclopaedia": (_town, _scholar), "logic": (_syllogisms, _truth_table, _order), "code": (_program,),
    "mathematics": (_product, _equation, _sales),
}


def main() -> None:
    """Write the texts of a seed as JSONL to standard output."""
    parser = argparse.ArgumentParser("python -m evals.heldout_texts", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--bytes", type=int, default=BYTES, help="UTF-8 bytes of each channel")
    args = parser.parse_args()
    sys.stdout.writelines(f"{json.dumps(each, ensure_ascii=False)}\n" for each in texts(args.seed, args.bytes))


if __name__ == "__main__":
    main()
