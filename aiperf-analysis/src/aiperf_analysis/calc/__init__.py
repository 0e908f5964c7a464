"""Calculators: pure functions of shapes, rates and prices. Each docstring names the source of its formula."""
