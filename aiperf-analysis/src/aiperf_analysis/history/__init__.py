"""History of a figure over runs: steps, drift, and what the newest run says."""
