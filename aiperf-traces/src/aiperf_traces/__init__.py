"""Traces of profilers in one form of columns, and what can be computed from them."""
