"""Three small targets to try code on: `aiperf judge FILE --target practice.matmul`."""
