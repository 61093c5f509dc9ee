"""One rule a file: a `Rule` with a `name`, found by its place."""
