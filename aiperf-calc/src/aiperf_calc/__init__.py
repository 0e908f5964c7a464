"""Calculators of models, replicas and costs, with the sources of their formulas, and prices that a user keeps."""
