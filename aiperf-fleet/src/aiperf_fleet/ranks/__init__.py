"""Ranks on several machines: their node agents, and the connections between the machines."""
