// A step of decoding by a small transformer: a row of the batch after the other, all layers in one call.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define EPSILON 1e-5f
#define MOST 4096  // of a row's numbers in any part of a layer, and of a text's places

// Eight floats, loaded from any address.
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));

// The dot product, in four sums of eight, so that no addition waits for the one before.
static float dot(const float* a, const float* b, int64_t n) {
  vec sums[4] = {{0}};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (int s = 0; s < 4; ++s) sums[s] += *(const vec*)(a + i + 8 * s) * *(const vec*)(b + i + 8 * s);
  const vec all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float total = 0;
  for (int lane = 0; lane < 8; ++lane) total += all[lane];
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

static void product(const float* w, const float* x, float* out, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) out[i] = dot(w + i * columns, x, columns);
}

// stream += w x. Fused, a sum is added where it is made; otherwise the product is written, and added after.
static void add_product(const float* w, const float* x, float* stream, int64_t rows, int64_t columns, int64_t fused) {
  if (fused) {
    for (int64_t i = 0; i < rows; ++i) stream[i] += dot(w + i * columns, x, columns);
    return;
  }
  float apart[MOST];
  product(w, x, apart, rows, columns);
  for (int64_t i = 0; i < rows; ++i) stream[i] += apart[i];
}

static void norm(const float* x, const float* weight, float* out, int64_t n) {
  const float scale = 1 / sqrtf(dot(x, x, n) / (float)n + EPSILON);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

// Rotate the pairs (i, i + half) of a head. `turns` has the cosines of a place and then its sines; without, `frequencies`
// are multiplied by the place.
static void rotate(float* head, const float* turns, const float* frequencies, int64_t place, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float angle = turns ? 0 : (float)place * frequencies[i];
    const float cosine = turns ? turns[i] : cosf(angle), sine = turns ? turns[half + i] : sinf(angle);
    const float first = head[i], second = head[half + i];
    head[i] = first * cosine - second * sine;
    head[half + i] = second * cosine + first * sine;
  }
}

// The mean of `values` [room, width], weighted by the softmax of query . keys over `filled` places.
static void attend(const float* query, const float* keys, const float* values, float* out, int64_t filled, int64_t width) {
  float weights[MOST], highest = -INFINITY, total = 0;
  for (int64_t p = 0; p < filled; ++p) {
    weights[p] = dot(query, keys + p * width, width) / sqrtf((float)width);
    highest = fmaxf(highest, weights[p]);
  }
  memset(out, 0, (size_t)width * sizeof *out);
  for (int64_t p = 0; p < filled; ++p) {
    const float weight = expf(weights[p] - highest);
    total += weight;
    for (int64_t i = 0; i < width; ++i) out[i] += weight * values[p * width + i];
  }
  for (int64_t i = 0; i < width; ++i) out[i] /= total;
}

// Logits [batch, vocabulary] after one more token of each row. Weights of all layers lie one after the other; keys and
// values are [layers, batch, kv_heads, room, head]. Sizes beyond MOST give 1, and nothing is done.
int64_t decode(const int64_t* token, const float* embedding, const float* attention_norm, const float* qkv,
               const float* out, const float* mlp_norm, const float* gate_up, const float* down, const float* last_norm,
               const float* head, const float* turns, const float* frequencies, float* keys, float* values,
               float* logits, int64_t batch, int64_t layers, int64_t width, int64_t heads, int64_t kv_heads,
               int64_t hidden, int64_t vocabulary, int64_t room, int64_t place, int64_t table, int64_t fused) {
  const int64_t each = width / heads, kv_width = kv_heads * each, shared = heads / kv_heads;
  if (width + 2 * kv_width > MOST || 2 * hidden > MOST || room > MOST) return 1;
  for (int64_t b = 0; b < batch; ++b) {
    float stream[MOST], x[MOST], part[MOST], mixed[MOST];
    memcpy(stream, embedding + token[b] * width, (size_t)width * sizeof *stream);
    for (int64_t l = 0; l < layers; ++l) {
      norm(stream, attention_norm + l * width, x, width);
      product(qkv + l * (width + 2 * kv_width) * width, x, part, width + 2 * kv_width, width);
      const float* turn = table ? turns + place * each : 0;
      for (int64_t h = 0; h < heads + kv_heads; ++h) rotate(part + h * each, turn, frequencies, place, each / 2);
      for (int64_t h = 0; h < kv_heads; ++h) {
        const int64_t start = ((l * batch + b) * kv_heads + h) * room * each;
        memcpy(keys + start + place * each, part + width + h * each, (size_t)each * sizeof *keys);
        memcpy(values + start + place * each, part + width + kv_width + h * each, (size_t)each * sizeof *values);
        for (int64_t q = h * shared; q < (h + 1) * shared; ++q)
          attend(part + q * each, keys + start, values + start, mixed + q * each, place + 1, each);
      }
      add_product(out + l * width * width, mixed, stream, width, width, fused);
      norm(stream, mlp_norm + l * width, x, width);
      product(gate_up + l * 2 * hidden * width, x, part, 2 * hidden, width);
      for (int64_t i = 0; i < hidden; ++i) part[i] = part[i] / (1 + expf(-part[i])) * part[hidden + i];
      add_product(down + l * width * hidden, part, stream, width, hidden, fused);
    }
    norm(stream, last_norm, x, width);
    product(head, x, logits + b * vocabulary, vocabulary, width);
  }
  return 0;
}
