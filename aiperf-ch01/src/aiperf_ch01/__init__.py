"""Chapter 1: what counts as useful work, how it is measured, and the first quick wins."""
