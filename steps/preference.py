"""Preferences: the policy learns from better and worse answers directly; the alternative to reward model and RLHF.

python -m steps.preference --config '{"checkpoint": SFT_DIR, "data": DIR, "method": "simpo"}' --out DIR"""

from collections.abc import Sequence

from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Planned, Step, StepContext
from argosy.corpus.data.split import FEEDBACK
from argosy.corpus.data.split import PREFERENCES as PAIRS
from argosy.model.post import PREFERENCES
from argosy.model.post.config import PosttrainingOutputs
from argosy.model.post.preferences import PreferenceMethodConfig
from argosy.model.post.preferences.methods import METHODS
from argosy.model.train.checks import TRAINING, check_tuning

_FILES = (*PAIRS, *FEEDBACK)


def run(config: PreferenceMethodConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.model.post.stage import begin

    stage = begin(config, context)
    from argosy.model.post.preferences.examples import read_answers, read_pairs
    from argosy.model.post.preferences.learning import learn
    from argosy.model.post.preferences.objective import HeldOut

    method = config.chosen
    examples, heldout = read_answers(stage) if method.single else read_pairs(stage)
    config.amount(len(examples), "examples for training")  # before a model is loaded
    model = stage.model()
    evaluate = HeldOut(method, heldout, stage.source.pad_id, config.micro_batch)
    return stage.run(model, evaluate, lambda: learn(stage, model, examples, evaluate))


def check(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check the node, and that the user's replies with labels are learnt from where there are some.

    Else KTO would learn from the demo's pairs, which are what its defaults name, beside feedback that nobody reads.
    Raises InputError: one of both is not so."""
    check_tuning(parts, nodes)
    for node in parts:
        lacking = [field for field in ("preferences", "heldout") if getattr(node.config, field) in FEEDBACK]
        if lacking and _feedback(node) is False:
            raise InputError(f"{node.place}.{lacking[0]} is {getattr(node.config, lacking[0])!r}, and there is no "
                             "feedback: set data.feedback=FILE, or leave it out to learn from pairs")
    readers = [node for node in nodes if isinstance(node.config, PreferenceMethodConfig) and _feedback(node)]
    if readers and not any(node.config.preferences in FEEDBACK for node in readers):
        name = readers[0].place
        raise InputError(f"data.feedback is given, and {' and '.join(node.place for node in readers)} would learn from "
                         f"the pairs of preferences.jsonl: set {name}.method=kto {name}.preferences={FEEDBACK[0]} "
                         f"{name}.heldout={FEEDBACK[1]}, or leave data.feedback out")


def _feedback(node: Planned) -> bool | None:
    """Tell whether the data step that a node reads is given feedback; None: it reads another item's data."""
    [data] = node.upstream["data"]
    found = getattr(data.config, "feedback", None)
    return None if found is None else bool(found)


STEP = Step("preference", PreferenceMethodConfig, run, version=3, needs="train", makes_model=True,
            metrics={**TRAINING, **PREFERENCES}, check=check, methods=tuple(METHODS),
            files=dict.fromkeys(("preferences", "heldout"), _FILES))

if __name__ == "__main__":
    main(STEP)
