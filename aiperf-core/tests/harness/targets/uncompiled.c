void twice(float* a) { a[0] *= two; }
