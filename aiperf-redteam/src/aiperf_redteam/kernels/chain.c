#include <stdint.h>

/* A walk through all remainders but zero of a prime: a hop is `steps` multiplications by one of its primitive roots. */
static uint64_t hop(uint64_t place, int64_t steps, uint64_t root, uint64_t prime) {
    for (int64_t step = 0; step < steps; ++step) place = place * root % prime;
    return place;
}

void computed(const int64_t *start, int64_t *out, int64_t hops, int64_t steps, int64_t root, int64_t prime) {
    uint64_t place = (uint64_t)start[0];
    for (int64_t i = 0; i < hops; ++i) place = hop(place, steps, (uint64_t)root, (uint64_t)prime);
    out[0] = (int64_t)place;
}

/* Where each place leads, `stride` entries apart so that each has a cache line of its own. */
void tabulated(int32_t *table, int64_t stride, int64_t steps, int64_t root, int64_t prime) {
    for (int64_t place = 0; place < prime; ++place)
        table[place * stride] = (int32_t)hop((uint64_t)place, steps, (uint64_t)root, (uint64_t)prime);
}

void followed(const int64_t *start, int64_t *out, int64_t hops, const int32_t *table, int64_t stride) {
    int64_t place = start[0];
    for (int64_t i = 0; i < hops; ++i) place = table[place * stride];
    out[0] = place;
}
