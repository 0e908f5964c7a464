// Replaces the driver's header, whose host functions NVRTC refuses. Kernels need its type CUtensorMap only: the
// descriptor of a tensor for TMA, passed as `const __grid_constant__ CUtensorMap`. The host creates it with
// cuTensorMapEncodeTiled.
#pragma once

typedef struct CUtensorMap_st {
    alignas(64) unsigned long long opaque[16];
} CUtensorMap;
