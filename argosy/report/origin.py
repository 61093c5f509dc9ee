"""Where the questions come from: one's own text is not asked about by the built-in facts."""

from __future__ import annotations

from pathlib import Path

from argosy.report.words import listed
from argosy.step_files import read_done

TRAINED_ON = ("instructions", "preferences", "prompts")


def notes_of_data(directory: str) -> list[str]:
    """Sentences on what is built in although the documents are the user's own; none where the demo's are used.

    Args:
        directory: the data step's, or "".
    """
    done = read_done(Path(directory)) if directory else None
    own = done["outputs"].get("own", []) if done else []
    if "inputs" not in own:
        return []
    found = []
    if "benchmark" not in own:
        found.append("The text is your own, but the benchmark asks about the built-in facts, and so do the probes of "
                     "facts: they say little of what was learnt from it. Give data.benchmark a file of your own "
                     "questions.")
    else:
        found.append("The probes of facts ask about the built-in facts, not about your own text.")
    built_in = [name for name in TRAINED_ON if name not in own]
    if built_in:
        found.append(f"Post-training used the built-in {listed(built_in)}; "
                     f"{listed([f'data.{name}' for name in built_in])} would name your own.")
    return found
