// Libraries include this header and call the runtime's cudaOccupancy functions. The stand-alone calculator
// (cudaOccMaxActiveBlocksPerMultiprocessor and its structures) is not here.
#ifndef ORRERY_CC_CUDA_OCCUPANCY_H
#define ORRERY_CC_CUDA_OCCUPANCY_H
#include <cuda_runtime_api.h>
#endif
