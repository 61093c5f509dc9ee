"""Tags that name the nodes which a pipeline run did not run, because another one had."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from argosy.tracking.batches import Shipped, owner_of
from argosy.tracking.records import SPOOL


def reused_tags(nodes: list[str], store: Path, pipeline: str, uri: str) -> dict[str, str]:
    """`argosy.reused.<node>` = the digest and run of each finished node (of each part) that `pipeline` did not make.

    Args:
        nodes: directories below the store.
    """
    named: dict[str, list[str]] = defaultdict(list)
    for directory in nodes:
        spool = store / directory / "tracking" / SPOOL
        if not spool.is_file():
            continue
        owner = owner_of(spool)
        if owner.pipeline != pipeline:
            named[owner.node].append(f"{owner.digest} run {Shipped.load(spool, uri).run_id}".removesuffix(" run "))
    return {f"argosy.reused.{node}": ", ".join(found) for node, found in named.items()}
