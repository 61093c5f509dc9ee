"""The WorkflowTemplates and all other YAML of a profile, with Hera."""
