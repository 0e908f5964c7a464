"""Servers to test a load generator with: one with known waiting times, and one with a small transformer."""
