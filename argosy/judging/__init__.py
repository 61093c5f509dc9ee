"""Which of two models answers better, by a judge that sees both answers in both orders. See docs/judging.md."""
