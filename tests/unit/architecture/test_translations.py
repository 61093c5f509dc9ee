"""The Chinese pages beside the English ones: the same headings, commands, names, figures, pictures in each section."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CHINESE = [ROOT / "README.zh.md", *sorted((ROOT / "docs/zh").glob("*.md"))]
LARGE = {"million": 1e6, "billion": 1e9, "万": 1e4, "亿": 1e8}
NUMBER = re.compile(r"(?<![A-Za-z0-9_.])((?:\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(?:\.\d+)?(?:e-?\d+)?)"
                    rf"(?: ?({'|'.join(LARGE)}))?")  # fmt: skip
LINK = re.compile(r"(!?)\[[^]]*\]\(([^)]+)\)")


def sections(page: str) -> list[tuple[str, list[str], str]]:
    """Split a page: heading, commands, text. Of a line of code, what comes before its comment or description counts."""
    found, fenced = [("", list[str](), list[str]())], False
    for line in page.splitlines():
        if line.strip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            found[-1][1].extend(filter(None, [re.split(r"(?:^|\s)#\s|\s{2,}", line.strip())[0].strip()]))
        elif line.startswith("#"):
            found.append((line, [], []))
        else:
            found[-1][2].append(line)
    return [(heading, code, " ".join(" ".join(text).split())) for heading, code, text in found]


def things(heading: str, code: list[str], text: str) -> dict[str, Counter[object]]:
    """Count what both languages have alike in a section."""
    prose = LINK.sub(" ", re.sub(r"(`+).+?\1", " ", text))
    return {"level": Counter([heading.partition(" ")[0]]), "commands": Counter(enumerate(code)),
            "pictures": Counter(Path(target).name for mark, target in LINK.findall(text) if mark),
            "names": Counter(name.strip("`") for name in re.findall(r"`+[^`]+`+", text)),
            "figures": Counter(float(number.replace(",", "")) * LARGE.get(large, 1)
                               for number, large in NUMBER.findall(prose))}


def differences(english: str, chinese: str) -> Iterator[str]:
    if len(sections(english)) != len(sections(chinese)):
        yield f"{len(sections(english)) - 1} headings, and {len(sections(chinese)) - 1} of the Chinese page"
    for one, other in zip(sections(english), sections(chinese), strict=False):
        theirs = things(*other)
        for what, ours in things(*one).items():
            if ours != theirs[what]:
                yield (f"{one[0]}: {what}: the Chinese page lacks {[*(ours - theirs[what])]}, "
                       f"and adds {[*(theirs[what] - ours)]}")


@pytest.mark.parametrize("chinese", CHINESE, ids=lambda path: str(path.relative_to(ROOT)))
def test_both_versions_of_a_page_say_the_same(chinese: Path) -> None:
    english = ROOT / ("README.md" if chinese.parent == ROOT else f"docs/{chinese.name}")
    found = [*differences(english.read_text(encoding="utf-8"), chinese.read_text(encoding="utf-8"))]
    assert not found, f"change {chinese.relative_to(ROOT)} as {english.name} was, or the reverse:\n" + "\n".join(found)


@pytest.mark.parametrize("changed", [("## 训练", "### 训练"), ("## 训练", ""), ("run", "plan"), ("lr", "rate"),
                                     ("4,096", "4,095"), ("2,200 万", "220 万"), ("a.png", "b.png")])
def test_a_difference_is_found(changed: tuple[str, str]) -> None:
    english = "# A\n\n    argosy run  # it\n\n## Training\n\n`lr` is 4,096 of 22 million ![x](a.png)\n"
    chinese = "# 一\n\n    argosy run  # 它\n\n## 训练\n\n2,200 万里的 4,096 个是 `lr` ![图](../a.png)\n"
    assert not [*differences(english, chinese)]
    assert [*differences(english, chinese.replace(*changed))]
