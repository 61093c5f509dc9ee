"""Worked word problems as templates whose numbers can be others."""
