// A row of launches without Python between them: what a host program in C++ pays.
#include <stdint.h>

// The driver's cuLaunchKernel.
typedef int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                      unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra);

// A row of `calls` has a function, the address of its parameters' addresses, and how many blocks. Returns the driver's
// status: 0, or that of the first launch that failed.
int32_t launch_all(int64_t cu_launch_kernel, const int64_t* calls, int64_t count, int64_t block, int64_t stream) {
  launch go = (launch)(uintptr_t)cu_launch_kernel;
  for (const int64_t* call = calls; call < calls + 3 * count; call += 3) {
    int status = go((void*)(uintptr_t)call[0], (unsigned)call[2], 1, 1, (unsigned)block, 1, 1, 0, (void*)(uintptr_t)stream,
                    (void**)(uintptr_t)call[1], 0);
    if (status) return status;
  }
  return 0;
}
