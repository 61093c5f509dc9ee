"""Proximal Policy Optimization for language models (Schulman et al. 2017; Ouyang et al. 2022)."""
