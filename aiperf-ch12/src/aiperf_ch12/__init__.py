"""Chapter 12: work that the GPU hands to itself."""
