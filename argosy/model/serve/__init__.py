"""Serving: checkpoints that answer requests in OpenAI's protocol."""
