"""A sweep: a grid of settings of small models, what their losses say, and which setting a large model takes."""
