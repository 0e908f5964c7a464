// <cuda.h> includes <stdlib.h> for size_t alone, which is built into NVRTC.
#pragma once
