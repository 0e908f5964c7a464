"""Chapter 20: search for faster code, and planning of large runs."""
