// calib/dissect/tensor_map.h: tensor maps of matrices, through the driver's entry point (nothing is linked with libcuda).
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

/// A map of a dense matrix of `rows` x `columns` elements of `bytes` each; copies move boxes of `box_y` x `box_x`. An empty map when
/// the driver refuses.
inline CUtensorMap matrix_map(void* data, CUtensorMapDataType type, uint32_t bytes, long rows, long columns, uint32_t box_y, uint32_t box_x, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion) {
  CUtensorMap map{};
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found) != cudaSuccess || !entry) return map;
  const cuuint64_t sizes[2] = {cuuint64_t(columns), cuuint64_t(rows)}, strides[1] = {cuuint64_t(columns) * bytes};
  const cuuint32_t box[2] = {box_x, box_y}, one[2] = {1, 1};
  reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(&map, type, 2, data, sizes, strides, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return map;
}
