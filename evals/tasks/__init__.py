"""Tasks of ours for lm-eval's command line: their YAML, and the class that it names."""
