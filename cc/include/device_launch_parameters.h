#include <vector_types.h>  // threadIdx and its kin are there in every CUDA translation unit (orrery_cc.h)
