"""Cleaning beside datatrove, measure by measure."""
