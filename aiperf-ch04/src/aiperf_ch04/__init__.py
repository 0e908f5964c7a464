"""Chapter 4: ranks that talk to each other."""
