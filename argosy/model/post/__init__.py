"""Post-training: SFT, reward model, DPO and RLHF on a pretrained checkpoint (docs/posttraining.md); here, the kinds of
the metrics that its steps log."""

from argosy.core.statistics.metric import Metric, share
from argosy.model.train.checks import LOSS, NEITHER, TRAINING

HELDOUT: dict[str, Metric] = {
    "heldout/instruction_loss*": LOSS,
    "heldout/exact_match*": share(),
    "heldout/*_stderr*": NEITHER}
PREFERENCES: dict[str, Metric] = {
    "heldout/preference_loss*": Metric("lower"),
    "heldout/preference_accuracy*": share(),
    "heldout/feedback_auc*": share(),
    "heldout/preference_brier*": Metric("lower"),
    "heldout/preference_calibration_error*": Metric("lower"),
    "heldout/preference_margin*": Metric("higher")}
RL: dict[str, Metric] = {
    "rlhf/reward*": Metric("higher"),
    "rlhf/kl_answer": Metric("lower", "nats an answer"),
    "rlhf/kl*": Metric("lower", "nats a token"),
    "rlhf/truncated": share("lower"),
    "rlhf/groups_of_equal_reward": share("lower"),
    "rlhf/length*": Metric("neither", "tokens"),
    "rlhf/*": NEITHER,
    "heldout/reward/*stderr": NEITHER,
    "heldout/reward*": Metric("higher"),
    "heldout/length/*": Metric("neither", "tokens")}
POSTTRAINING = {**TRAINING, **RL, **HELDOUT, **PREFERENCES}
