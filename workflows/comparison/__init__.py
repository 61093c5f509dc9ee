"""What `argosy compare` can be given: checkpoints of the store, model lines, MLflow's runs, models and aliases."""
