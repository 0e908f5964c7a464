"""Chapter 1: what a launch costs, and how to make fewer of them."""
