"""Cost of a step beside Metaflow and Luigi."""
