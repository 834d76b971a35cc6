// Tensor-map encoding; see tensor_map.h.
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

Encode find_encoder() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaError_t e =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
#else
  cudaError_t e = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found);
#endif
  if (e != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Encode>(entry);
}

}  // namespace

bool encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, int rank, const void* data, const uint64_t* sizes,
                       const uint64_t* pitches, const uint32_t* box, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion) {
  static const Encode encode = find_encoder();
  if (!encode) return false;
  const cuuint32_t ones[5] = {1, 1, 1, 1, 1};
  // The driver reads rank - 1 pitches; the casts only change the spelling of a 64-bit integer.
  return encode(map, type, rank, const_cast<void*>(data), reinterpret_cast<const cuuint64_t*>(sizes),
                reinterpret_cast<const cuuint64_t*>(pitches), box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle, promotion,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

CUtensorMapDataType tensor_map_type(DType t) {
  switch (t) {
    case DType::kF32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::kF16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBF16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

}  // namespace orrery::kernels
