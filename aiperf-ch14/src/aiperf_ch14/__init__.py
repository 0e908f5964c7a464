"""Chapter 14: compilers and Triton."""
