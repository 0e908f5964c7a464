// Block tables of a paged cache: the operations of all steps, one after the other, on arrays.
#include <stdint.h>

enum { PAGE = 16, NONE = -1 };

// stack: free blocks, of which the last is taken first. tables: [rows, width]. slots, copied: [steps, rows].
void serve(const int64_t* ended, const int64_t* parents, const int64_t* prompts, int32_t* slots, int32_t* copied,
           int32_t* tables, int32_t* counts, int32_t* stack, int32_t* lengths, int64_t steps, int64_t rows,
           int64_t ending, int64_t width, int64_t blocks) {
  int64_t top = blocks;  // blocks on the stack
  for (int64_t i = 0; i < blocks; ++i) stack[i] = (int32_t)(blocks - 1 - i), counts[i] = 0;
  for (int64_t i = 0; i < rows * width; ++i) tables[i] = NONE;
  for (int64_t row = 0; row < rows; ++row) lengths[row] = 0;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < ending; ++i) {
      const int64_t row = ended[step * ending + i];
      int32_t* table = tables + row * width;
      for (int64_t place = (lengths[row] + PAGE - 1) / PAGE; place-- > 0; table[place] = NONE)
        if (--counts[table[place]] == 0) stack[top++] = table[place];
    }
    for (int64_t i = 0; i < ending; ++i) {
      const int64_t row = ended[step * ending + i], parent = parents[step * ending + i];
      int32_t* table = tables + row * width;
      lengths[row] = parent == NONE ? (int32_t)prompts[step * ending + i] : lengths[parent];
      for (int64_t place = 0; place < (lengths[row] + PAGE - 1) / PAGE; ++place) {
        table[place] = parent == NONE ? stack[--top] : tables[parent * width + place];
        ++counts[table[place]];
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t length = lengths[row]++, offset = length % PAGE;
      int32_t *block = tables + row * width + length / PAGE, from = NONE;
      if (offset && counts[*block] > 1) --counts[from = *block];
      if (!offset || from != NONE) counts[*block = stack[--top]] = 1;
      slots[step * rows + row] = *block * PAGE + offset;
      copied[step * rows + row] = from;
    }
  }
}
