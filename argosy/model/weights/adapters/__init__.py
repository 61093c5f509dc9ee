"""Adapters: small trained matrices beside the frozen weights of a model (PEFT's LoRA and its kin)."""
