"""Natural wordings of facts, questions about them and four-option quizzes, zh and en."""

from argosy.demo.phrasings.quiz import LABELS, LAYOUTS, Quiz, quiz, render_quiz
from argosy.demo.phrasings.wording import question, statement, wordings

__all__ = [
    "LABELS",
    "LAYOUTS",
    "Quiz",
    "question",
    "quiz",
    "render_quiz",
    "statement",
    "wordings",
]
