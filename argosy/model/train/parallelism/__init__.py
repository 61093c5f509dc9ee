"""Parallelism within one copy of a model: tensor, pipeline, sequence and expert, on one mesh of processes."""
