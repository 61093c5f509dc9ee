"""Configs: typed schema, layers of YAML, overrides, errors that name field and line."""
