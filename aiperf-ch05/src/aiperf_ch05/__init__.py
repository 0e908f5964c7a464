"""Chapter 5: storage, and who waits for it."""
