"""Preferences: the policy learns from better and worse answers directly; the alternative to reward model and RLHF.

python -m steps.preference --config '{"checkpoint": SFT_DIR, "data": DIR, "method": "simpo"}' --out DIR"""

from typing import Any

from argosy.posttraining.config import PosttrainingOutputs
from argosy.posttraining.preferences.config import PreferenceMethodConfig
from argosy.step.command import main
from argosy.step.contract import Step, StepContext


def run(config: PreferenceMethodConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.posttraining.stage import begin

    stage = begin(config, context)
    from argosy.posttraining.preferences.examples import read_feedback, read_pairs, split
    from argosy.posttraining.preferences.heldout import method_metrics, pair_answers
    from argosy.posttraining.preferences.learning import learn
    from argosy.posttraining.preferences.methods import Answers, find_method

    pairs, heldout = read_pairs(stage)
    model, method = stage.model(), find_method(config.method)
    batches = (stage.source.pad_id, config.micro_batch)
    before: list[tuple[Answers, Answers]] = []

    def evaluate(model: Any) -> dict[str, float]:
        found = pair_answers(model, heldout, *batches, *(before if method.reference else []))
        before.append(found)
        if len(before) == 1 and method.reference:  # the reference is the model that training starts from
            found = pair_answers(model, heldout, *batches, found)
        return method_metrics(method, config, found, heldout)

    single = (read_feedback(stage, config.feedback) if config.feedback else split(pairs)) if method.single else None
    return stage.run(config.stage, model, evaluate, lambda: learn(stage, model, pairs if single is None else single))


STEP = Step("preference", PreferenceMethodConfig, run, needs="train")

if __name__ == "__main__":
    main(STEP)
