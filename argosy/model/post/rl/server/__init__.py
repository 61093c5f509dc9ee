"""Answers by vLLM as a server of its own process: its protocol, its life, and its weights."""
