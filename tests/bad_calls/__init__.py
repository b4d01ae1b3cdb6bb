"""Calls that have to be refused: a table for each package, and in `rows` what a row is."""
