"""Analyses of stored results: what to conclude from bundles, and how sure that is."""
