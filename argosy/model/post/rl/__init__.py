"""Reinforcement learning from rewards of sampled answers: PPO, GRPO and RLOO."""
