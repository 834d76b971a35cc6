// The rows of one group after the other, as a list of ends in device memory has them.
#pragma once
#include "gemm_params.h"

namespace orrery::kernels {

struct GroupRange {
  int group = 0, begin = 0, end = 0;  // the rows [begin, end); none once group is p.groups
  __device__ __forceinline__ explicit GroupRange(const GemmParams& p) { enter(p); }
  __device__ __forceinline__ void next(const GemmParams& p) {
    begin = end;
    group++;
    enter(p);
  }
  __device__ __forceinline__ int tiles(int rows) const { return (end - begin + rows - 1) / rows; }

 private:
  __device__ __forceinline__ void enter(const GemmParams& p) {
    if (group < p.groups) end = max(begin, min(__ldg(p.group_ends + group), p.e.m));  // a wrong list must not reach outside D
  }
};

}  // namespace orrery::kernels
