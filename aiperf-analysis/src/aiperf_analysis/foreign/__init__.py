"""Results of other tools that benchmark: read into one model, and judged over time or in pairs."""
