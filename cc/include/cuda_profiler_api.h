#ifndef ORRERY_CC_CUDA_PROFILER_API_H
#define ORRERY_CC_CUDA_PROFILER_API_H
#include <cuda_runtime_api.h>
#endif
