"""Report of a cleaning, on a page of its own too: funnel, scores with thresholds, near misses, copies, languages."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from argosy.core.config.explain import grouped
from argosy.corpus.text.display import short
from argosy.evidence.report.page import render

MUCH = 1 / 3  # of a channel that one filter drops, from where on it is a warning
_WIDTH, _HEIGHT = 220, 56  # of a histogram


def cleaning(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what templates show of a report of a clean step; None where there is none.

    samples: by filter, (channel, reason, text); languages: by channel, (language, in, out, share of the channel);
    scores and near misses: by filter. The other keys are the report's own."""
    if not report.get("channels"):
        return None
    samples = grouped((s["filter"], (s["channel"], s["reason"], s["text"])) for s in report.get("samples", []))
    scores = grouped((name.partition(".")[0], drawn) for name, histogram in report.get("scores", {}).items()
                     if (drawn := _bars(name, histogram)))
    near = grouped((row["filter"], row) for row in report.get("near_misses", []))
    funnels = [_funnel(name, counts) for name, counts in sorted(report["channels"].items())]
    own = {name: report.get(name, {}) for name in ("found", "contamination", "contaminated", "tiers")}
    return own | {
        "came": sum(f["came"] for f in funnels), "kept": sum(f["kept"] for f in funnels), "funnels": funnels,
        "samples": dict(sorted(samples.items())), "scores": scores, "near": near,
        "clusters": {name: one for name, one in report.get("clusters", {}).items() if one["copies"]},
        "languages": {channel: list(_languages(each)) for channel, each in report.get("languages", {}).items()},
    }  # fmt: skip


def cleaning_page(report: Mapping[str, Any], line: str = "") -> str:
    """Return the page of a cleaning alone, one file that needs no network."""
    return render("cleaned.html.j2", cleaning=cleaning(report), line=line, much=MUCH)


def _funnel(channel: str, counts: Mapping[str, Any]) -> dict[str, Any]:
    """One channel; dropped: (filter, documents, "n reason; n reason"), the biggest first."""
    dropped = [(name, sum(reasons.values()), "; ".join(f"{n} {reason}" for reason, n in sorted(
        reasons.items(), key=lambda r: (-r[1], r[0])))) for name, reasons in counts["dropped"].items()]
    return {"channel": channel, "came": counts["in"], "kept": counts["out"], "bytes_in": counts["bytes_in"],
            "bytes_out": counts["bytes_out"], "dropped": sorted((d for d in dropped if d[1]), key=lambda d: -d[1]),
            "changed": sorted(counts["changed"].items())}


def _bars(name: str, histogram: Mapping[str, Sequence[float]]) -> dict[str, Any] | None:
    """Draw a histogram; None where no document has the score. bars: (x, y, height, what is said of it); heights are of
    the square root, so that a few documents are seen beside many. thresholds: (x, text)."""
    edges, counts = histogram["edges"], histogram["counts"]
    documents = int(sum(counts))
    if not documents:
        return None
    width, most = _WIDTH / len(counts), max(counts) ** 0.5

    def x_of(value: float) -> float:
        at = min(max(bisect_right(edges, value) - 1, 0), len(counts) - 1)
        return round(width * (at + (value - edges[at]) / (edges[at + 1] - edges[at])), 1)

    bars = []
    for at, count in enumerate(counts):
        height = round(_HEIGHT * count**0.5 / most, 1)
        if count:
            bars.append((round(at * width, 1), _HEIGHT - height, height, f"{_between(edges, at)}: {int(count):,}"))
    marks = [(x_of(each), short(each)) for each in histogram["thresholds"]]
    return {"name": name.partition(".")[2], "bars": bars, "width": round(width - 0.6, 2), "thresholds": marks,
            "documents": documents}


def _between(edges: Sequence[float], at: int) -> str:
    """Name a bin; the outer ones hold what lies beyond."""
    if at == 0 and edges[0]:
        return f"below {short(edges[1])}"
    return f"from {short(edges[at])}" if at == len(edges) - 2 else f"{short(edges[at])} to {short(edges[at + 1])}"


def _languages(own: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, int, int, float]]:
    every = sum(counts["in"] for counts in own.values()) or 1
    for name, counts in own.items():
        yield name, counts["in"], counts["out"], counts["in"] / every
