"""Judges: a checkpoint on this machine, or a server that speaks OpenAI's chat API."""
