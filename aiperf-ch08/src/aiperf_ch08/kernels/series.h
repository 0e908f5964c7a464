// Coefficients of long polynomials, in C and CUDA C++: multiples of 1/32 between -31/32 and 1, without a pattern in k.
// Where k is known to the compiler, a coefficient is part of an instruction. The host's twin is in the benchmark.
#define TERM(k) (((int)(((k) * 2654435761u) >> 26) - 31) / 32.0f)
