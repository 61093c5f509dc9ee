"""Language models: checkpoints written and opened, chat templates, generation, log-probabilities, losses."""
