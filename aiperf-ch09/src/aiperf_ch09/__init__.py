"""Chapter 9: arithmetic intensity, fusion and tensor cores."""
