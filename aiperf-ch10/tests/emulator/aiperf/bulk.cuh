// In place of aiperf's header: what the PTX manual says of asynchronous copies, on the host.
#pragma once
inline void async_copy16(void* to, const void* from, int bytes = 16) {
  auto copy = [=] {
    char sixteen[16] = {0};
    memcpy(sixteen, from, bytes);
    memcpy(to, sixteen, 16);
  };
  if (((uintptr_t)to | (uintptr_t)from) % 16) failed = true;
  if (eager) copy();
  else fiber->groups.back().push_back(copy);
}
inline void async_commit() { fiber->groups.emplace_back(); }
template <int N>
void async_wait() { run_pending(fiber->groups, N); }

// A matrix of 2-byte elements, and its box.
struct CUtensorMap {
  struct Matrix { const char* base; long rows, columns, pitch_bytes, box_rows, box_columns, swizzle_bytes; }* matrix;
};
inline void tensor_load(void* to, const CUtensorMap* map, int x, int y, Barrier* barrier) {
  const CUtensorMap::Matrix m = *map->matrix;
  by_engine([=] {
    for (long r = 0; r < m.box_rows; ++r)
      for (long c = 0; c < m.box_columns; ++c) {
        unsigned short v = 0;
        if (y + r < m.rows && x + c < m.columns) memcpy(&v, m.base + (y + r) * m.pitch_bytes + (x + c) * 2, 2);
        const uintptr_t at = (uintptr_t)to + (r * m.box_columns + c) * 2;
        *(unsigned short*)(at ^ ((at >> 7) & (m.swizzle_bytes / 16 - 1)) << 4) = v;
      }
    barrier->bytes -= (int)(m.box_rows * m.box_columns * 2), barrier->settle();
  });
  if ((uintptr_t)to % 1024) failed = true;
}
