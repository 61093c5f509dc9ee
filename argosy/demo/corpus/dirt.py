"""Documents that cleaning should repair or drop, each labelled with what is wrong with it."""

from collections.abc import Iterator, Sequence
from random import Random

from argosy.demo.corpus.dirt_makers import MAKERS
from argosy.demo.corpus.records import DocumentRecord, Item

DIRT_KINDS = tuple(MAKERS)

_DUPLICATES = ("exact_duplicate", "near_duplicate")

# A shorter base would hardly resemble its near duplicate.
_LEAST_CHARS = {"en": 400, "zh": 150}


def dirty_documents(
    clean: Sequence[DocumentRecord],
    spare: Sequence[DocumentRecord],
    items: Sequence[Item],
    per_kind: int,
    seed: str | int,
) -> Iterator[DocumentRecord]:
    """`per_kind` documents of each of DIRT_KINDS; languages take turns where both are given.

    Duplicates are made of `clean`. The rest are made of `spare`, prose that must not be in the
    corpus too (or deduplication would find them first): ten times `per_kind` is enough. Leaked
    pages show `items`. metadata: `dirt` is the kind; `of` the id of the document inside, if any;
    besides, `lines` (boilerplate, insults), `pii` (type and value), `items` (ids of leaked
    items), `language`, `decoded_as`.
    """
    pools = {True: _in_turn(clean, seed), False: _in_turn(spare, seed)}
    used = {True: 0, False: 0}
    for kind, maker in MAKERS.items():
        is_duplicate = kind in _DUPLICATES
        for index in range(per_kind):
            base = pools[is_duplicate][used[is_duplicate] % len(pools[is_duplicate])]
            used[is_duplicate] += 1
            text, metadata = maker(Random(f"dirt/{seed}/{kind}/{index}"), base, items)
            yield {
                "id": f"dirt-{kind}-{index}",
                "text": text,
                "channel": base["channel"],
                "lang": base["lang"],
                "source": "argosy-demo",
                "metadata": {"dirt": kind, **metadata},
            }


def _in_turn(documents: Sequence[DocumentRecord], seed: str | int) -> list[DocumentRecord]:
    """Long enough prose, shuffled, languages in turn and as many of each; code is left out."""
    prose = [d for d in documents if d["channel"] != "code" and len(d["text"]) >= _LEAST_CHARS[d["lang"]]]
    Random(f"dirt/{seed}").shuffle(prose)
    groups = [group for lang in _LEAST_CHARS if (group := [d for d in prose if d["lang"] == lang])]
    if not groups:
        raise ValueError(f"{len(documents)} documents, none of them is prose of {_LEAST_CHARS} characters")
    return [document for row in zip(*groups, strict=False) for document in row]
