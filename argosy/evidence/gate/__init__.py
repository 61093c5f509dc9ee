"""The gate: rules in YAML that a checkpoint must hold to be promoted. docs/gate.md"""
