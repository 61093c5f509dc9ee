"""MLflow: the only package that imports it."""
