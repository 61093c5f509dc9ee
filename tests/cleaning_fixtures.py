"""Clean prose, and one filter applied to one text."""

from typing import Any

from argosy.cleaning.batch import Batch
from argosy.cleaning.filter import Filter, Resources
from argosy.cleaning.filters import make_filters, parse_filters
from argosy.cleaning.scoring import KEPT, decide, score
from argosy.data.schemas import Document

PROSE = (
    "The harbour was quiet in the morning, and the fishermen sat on the wall to mend their nets. "
    "A boat that had left before dawn came back with a small catch of herring. "
    "Nobody spoke about the storm of the week before, but all of them looked at the sky."
)
CHINESE = (
    "清晨的港口十分安静，渔民们坐在堤岸上修补渔网。天亮前出海的小船回来了，只带回不多的鲱鱼。"
    "谁也没有提起上周的风暴，但是大家都在看天。"
)


def make(name: str, resources: Resources | None = None, **thresholds: Any) -> Filter[Any]:
    configs: Any = parse_filters([{"name": name, **thresholds}])
    return make_filters(configs, resources or Resources())[0]


def document(text: str, lang: str = "", channel: str = "web") -> Document:
    return Document("id", text, channel, lang)


def outcome(name: str, text: str, lang: str = "", resources: Resources | None = None, **thresholds: Any) -> str:
    """The text that comes out, or "dropped: <reason>"."""
    import numpy as np

    filters = {name: make(name, resources, **thresholds)}
    scored = score(Batch([document(text, lang)]), filters)
    codes, reasons = decide(filters, scored.scores, np.array(["web"]))
    return scored.batch.documents[0].text if codes[0] == KEPT else f"dropped: {reasons[codes[0]][1]}"
