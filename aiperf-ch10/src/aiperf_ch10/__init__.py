"""Chapter 10: pipelines within a kernel, clusters and persistent kernels."""
