"""Loops of the rules of quality: words, lines and n-grams of text, and source files."""
