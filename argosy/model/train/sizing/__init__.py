"""The planner of training: parameters, memory, FLOPs, traffic, time and layouts of a model, by arithmetic alone."""
