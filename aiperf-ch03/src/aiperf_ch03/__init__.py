"""Chapter 3: what the operating system costs, and how to pay it once."""
