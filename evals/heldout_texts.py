"""Held-out texts that are made by rules: encyclopaedia, logic, code and mathematics, in English and in Chinese.

    python -m evals.heldout_texts --seed 7 > mine.jsonl        # the suite general has those of seed 0

Names are invented and numbers drawn, so a new seed is in no training data. A model that follows a text can predict
much of it: facts are repeated, conclusions follow, and what programs print and sums are is right.
"""

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from random import Random

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


def _entry(rng: Random, lang: str, sentences: Mapping[str, Sequence[Sequence[str]]], **values: object) -> str:
    """Write one of the forms of each sentence."""
    joint = "" if lang == "zh" else " "
    return joint.join(rng.choice(forms).format(**values) for forms in sentences[lang])


_TOWN = {
    "en": (
        ("{a} is a town on the river {b}, in the {side} of {c}.", "{a}, a town in the {side} of {c}, lies on the {b}."),
        ("It was founded in {year} by {d} and has {people:,} inhabitants.",
         "{d} founded it in {year}; {people:,} people live there now."),
        ("For {span} years, until {end}, the town lived from {trade}.",
         "Until {end}, {span} years after it was founded, {trade} fed the town."),
        ("Of its {people:,} inhabitants {part:,} work in {other} today, and the other {rest:,} do not.",
         "Today {part:,} of the {people:,} inhabitants work in {other}, and {rest:,} elsewhere or not at all."),
        ("A stone bridge with {arches} arches crosses the {b}, and a statue on it shows {d}, the founder of {a}.",
         "The founder, {d}, stands as a statue on the bridge over the {b}, which has {arches} arches."),
        ("Every year on the first Sunday in May the people of {a} remember that {trade} ended in {end}.",
         "A small museum of {trade} shows how people lived in {a} between {year} and {end}.")),
    "zh": (
        ("{a}是{c}{side}部的一座城镇，位于{b}河畔。", "{a}位于{c}{side}部，{b}河从城中流过。"),
        ("该镇由{d}于{year}年建立，现有居民{people}人。", "{year}年，{d}在这里建城；如今城里住着{people}人。"),
        ("此后{span}年间，直到{end}年，当地居民一直以{trade}为生。", "到{end}年为止的{span}年里，{trade}养活了全城。"),
        ("今天，{people}名居民中有{part}人从事{other}，其余{rest}人不从事这一行。",
         "在{people}名居民里，{part}人如今从事{other}，另外{rest}人则不然。"),
        ("一座有{arches}个桥孔的石桥横跨{b}河，桥上立着建城者{d}的雕像。",
         "{b}河上的石桥有{arches}个桥孔，建城者{d}的雕像就立在桥头。"),
        ("每年五月的第一个星期日，{a}人都会纪念{end}年结束的{trade}。",
         "城里有一座小博物馆，讲述{year}年到{end}年间{a}人怎样靠{trade}生活。")),
}
_TRADES = {"en": ("salt mining", "weaving", "bell making", "shipbuilding", "glass blowing", "bee keeping", "printing"),
           "zh": ("采盐", "纺织", "铸钟", "造船", "吹制玻璃", "养蜂", "印刷")}
_SIDES = {"en": ("north", "south", "east", "west"), "zh": "北南东西"}


def _town(rng: Random, lang: str) -> str:
    a, b, c, d = _names(rng, lang, 4)
    trade, other = rng.sample(_TRADES[lang], 2)
    year, span, people = rng.randint(1100, 1700), rng.randint(60, 280), rng.randint(2_000, 90_000)
    part, side = rng.randint(people // 9, people // 2), rng.choice(_SIDES[lang])
    return _entry(rng, lang, _TOWN, a=a, b=b, c=c, d=d, trade=trade, other=other, year=year, span=span, end=year + span,
                  people=people, part=part, rest=people - part, arches=rng.randint(3, 12), side=side)


_SCHOLAR = {
    "en": (
        ("{a} (born {year} in {b}, died {end} in {c}) was a scholar of {field}.",
         "{a}, a scholar of {field}, was born in {b} in {year} and died in {c} in {end}."),
        ("The child of a miller, {a} learned to read at the age of {age} and left {b} for {c} in {left}.",
         "At {age} {a} could read; in {left} the young scholar moved from {b} to {c}."),
        ("In {c} {a} met {d}, with whom {count} books on {field} were written over {years} years.",
         "There {a} and {d} wrote {count} books on {field} in {years} years."),
        ("The best known of the {count} books describes {objects} {things} and names each of them after a star.",
         "One of these {count} books lists {objects} {things}, each with a drawing by {d}."),
        ("When {a} died at the age of {life}, {d} gave the {objects} {things} to the library of {b}.",
         "{a} lived to the age of {life}; the library of {b} keeps the {objects} {things} to this day.")),
    "zh": (
        ("{a}（{year}年生于{b}，{end}年卒于{c}）是一位研究{field}的学者。",
         "{a}是研究{field}的学者，{year}年出生于{b}，{end}年在{c}去世。"),
        ("{a}出身磨坊主家庭，{age}岁学会识字，{left}年离开{b}前往{c}。", "{a}{age}岁便能读书，{left}年从{b}迁往{c}。"),
        ("在{c}，{a}结识了{d}，两人用{years}年合写了{count}部关于{field}的著作。",
         "{a}与{d}在那里共事{years}年，写成{count}部讨论{field}的书。"),
        ("这{count}部书中最著名的一部记载了{objects}种{things}，并用星星的名字为它们命名。",
         "其中一部列出{objects}种{things}，每一种都配有{d}画的插图。"),
        ("{a}去世时享年{life}岁，{d}把这{objects}种{things}赠给了{b}的图书馆。",
         "{a}活到{life}岁；{b}的图书馆至今保存着那{objects}种{things}。")),
}
_FIELDS = {"en": (("minerals", "stones"), ("insects", "beetles"), ("plants", "ferns"), ("the sea", "shells")),
           "zh": (("矿物", "石头"), ("昆虫", "甲虫"), ("植物", "蕨类"), ("海洋", "贝壳"))}


def _scholar(rng: Random, lang: str) -> str:
    a, b, c, d = _names(rng, lang, 4)
    field, things = rng.choice(_FIELDS[lang])
    year, life, age = rng.randint(1400, 1850), rng.randint(48, 95), rng.randint(3, 9)
    return _entry(rng, lang, _SCHOLAR, a=a, b=b, c=c, d=d, field=field, things=things, year=year, life=life, age=age,
                  end=year + life, left=year + rng.randint(16, 30), count=rng.randint(2, 14), years=rng.randint(3, 17),
                  objects=rng.randint(40, 900))


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


_RANKS = {"en": (("older", "oldest", "youngest"), ("taller", "tallest", "shortest")),
          "zh": (("年长", "年长", "年轻"), ("高", "高", "矮"))}


def _order(rng: Random, lang: str) -> str:
    names = _names(rng, lang, 5)
    more, most, least = rng.choice(_RANKS[lang])
    pairs = [*pairwise(names)]
    rng.shuffle(pairs)
    if lang == "en":
        said = " ".join(f"{a} is {more} than {b}." for a, b in pairs)
        return (f"{said} From the {most} to the {least} they are {', '.join(names)}. So the {most} is {names[0]}, the "
                f"{least} is {names[-1]}, and {names[2]} is in the middle. {names[1]} is {more} than {names[3]}.")
    said = "".join(f"{a}比{b}{more}。" for a, b in pairs)
    return (f"{said}从最{most}到最{least}依次是{'、'.join(names)}。所以最{most}的是{names[0]}，"
            f"最{least}的是{names[-1]}，{names[2]}排在中间。{names[1]}比{names[3]}{more}。")


_PROGRAMS = (
    ("Adds the multiples of {n} in a list.", "把列表中{n}的倍数相加。",
     "def {f}({v}):\n    total = 0\n    for number in {v}:\n        if number % {n} == 0:\n"
     "            total += number\n    return total\n\n\nprint({f}({list}))\n"),
    ("Counts how often each letter occurs in a word.", "统计一个单词中每个字母出现的次数。",
     "def {f}(word):\n    counts = {{}}\n    for letter in word:\n        counts[letter] = counts.get(letter, 0) + 1\n"
     "    return counts\n\n\nprint({f}(\"{v}{f}\"))\n"),
    ("Returns the numbers that are larger than the one before, times {n}.", "返回比前一个数大的数，并乘以{n}。",
     "def {f}({v}):\n    return [b * {n} for a, b in zip({v}, {v}[1:]) if b > a]\n\n\nprint({f}({list}))\n"),
    ("Repeats a step until the number is below {n}.", "重复同一步骤，直到数字小于{n}。",
     "def {f}(start):\n    steps = [start]\n    while steps[-1] >= {n}:\n        steps.append(steps[-1] // 2)\n"
     "    return steps\n\n\nfor {v} in ({big}, {n} + 1):\n    print({v}, {f}({v}))\n"),
    ("Sorts words by their length and joins them with a dash.", "按长度排列单词，并用短横线连接。",
     "def {f}({v}):\n    return \"-\".join(sorted({v}, key=len))\n\n\nprint({f}({words}))\n"),
)


def _program(rng: Random, lang: str) -> str:
    """Write a program, with what it prints as a comment."""
    f, v, *words = (name.lower() for name in _names(rng, "en", 6))
    english, chinese, code = rng.choice(_PROGRAMS)
    numbers = [rng.randint(1, 60) for _ in range(rng.randint(5, 8))]
    values = {"f": f"{f}_{v}", "v": v, "n": rng.randint(2, 9), "list": numbers, "big": rng.randint(90, 900),
              "words": words}
    source = code.format(**values)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(source, {})  # of _PROGRAMS
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
