"""Pairwise judging: which of two models answers better, by a judge that reads both answers in both orders."""
