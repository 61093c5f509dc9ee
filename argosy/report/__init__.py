"""Which checkpoint is better than which, at what, what was forgotten and what was memorised: numbers and a page."""
