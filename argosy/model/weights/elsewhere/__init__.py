"""Models from elsewhere: of the Hugging Face hub, in GGUF files, and what the pipeline adds to one."""
