"""Records between the steps: their schemas, JSONL files, the user's own files, what was set aside, splits."""
