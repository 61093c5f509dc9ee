"""What the exit handler is told of the nodes that failed.

Not their list itself: it has the messages of all attempts, and the kernel takes no argument above 128 KiB.
"""

from __future__ import annotations

import hashlib

# Argo's words on a node that `argo stop` ended: one with a pod, and one that waited (for a person, a mutex, a retry).
SHUTDOWN = "(?i)(workflow shutdown|stopped) with strategy"
NONE = hashlib.sha256(b"").hexdigest()  # `digest` where nothing has failed


def stopped() -> str:
    """Expression: whether somebody stopped the workflow."""
    return f"workflow.failures matches '{SHUTDOWN}'"


def digest() -> str:
    """Expression: equal for two ends of a workflow between which nothing ran. Argo lists the nodes in any order."""
    ends = "sprig.regexFindAll('finishedAt[^,}]*', workflow.failures, -1)"
    return f"sprig.sha256sum(sprig.join(',', sprig.sortAlpha({ends})))"
