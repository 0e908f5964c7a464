"""Chapter 16: serving requests as they come."""
