#include <cuda_runtime.h>  // all of it is there already
