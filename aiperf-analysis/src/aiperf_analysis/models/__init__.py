"""Designs, fits and curves: numbers in, numbers out. Nothing here knows bundles."""
