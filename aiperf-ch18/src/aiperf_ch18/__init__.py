"""Chapter 18: attention kernels of decoding, and the KV cache."""
