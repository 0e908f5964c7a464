"""Profiles of implementations, by passes beside the timed run, and comparisons of them."""
