"""Post-training: SFT, reward model, DPO and RLHF on a pretrained checkpoint (see docs/posttraining.md)."""
