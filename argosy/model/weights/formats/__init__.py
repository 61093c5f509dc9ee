"""Weights in the layouts of other trainers: Megatron-Core's and torchtitan's, to and from that of transformers."""
