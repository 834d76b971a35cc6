// Which GEMM kernels exist: the tiles instantiated for a pair of operand types and layouts.
#pragma once
#include <vector>

#include "gemm_persistent.cuh"
#include "gemm_split.cuh"
#include "gemm_stream_k.cuh"

namespace orrery::kernels {

/// Tiles for any operand of 128-byte K steps. kPromote doubles the accumulators, so those tiles are smaller. A stage that is being
/// multiplied and the one before it are held, so that stages of one slab keep more of the ring on its way; only the narrowest tiles
/// have two.
template <class TA, class TB, bool kTransA, bool kTransB>
void add_kernels(std::vector<GemmKernel>& out, DType a, DType b) {
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 256, 1, false, false>(a, b));  // 128 x 256
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 2, 128, 1, false, false>(a, b));  // 256 x 128
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 192, 1, false, false>(a, b));  // 128 x 192
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 2, 128, 1, true, false>(a, b));   // 128 x 128, twice
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 256, 1, true, false>(a, b));   // 64 x 256, twice
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 128, 1, true, false>(a, b));   // 64 x 128, twice
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 64, 1, true, false>(a, b));    // 64 x 64, twice
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 64, 1, false, false>(a, b));   // 128 x 64
  out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 2, 192, 1, true, false>(a, b));   // 128 x 192, twice
  if constexpr (!std::is_same_v<TA, int8_t>) {  // widths that fill waves where powers of two do not
    out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 2, 160, 1, true, false>(a, b));   // 128 x 160, twice
    out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 2, 112, 1, true, false>(a, b));   // 128 x 112, twice
    out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 2, 144, 1, true, false>(a, b));   // 128 x 144, twice
    out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 200, 1, false, false>(a, b));  // 128 x 200
    out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 224, 1, false, false>(a, b));  // 128 x 224
    out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 160, 1, false, false>(a, b));  // 128 x 160
    out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 96, 1, false, false>(a, b));   // 128 x 96
    out.push_back(split_kernel<TA, TB, kTransA, kTransB, 3, 96, 1, 1, false>(a, b));
    out.push_back(split_kernel<TA, TB, kTransA, kTransB, 1, 96, 1, 2, false>(a, b));
  }
  if constexpr (kTransA && !kTransB) {  // products of row-major matrices turned round
    out.push_back(persistent_kernel<TA, TB, kTransA, kTransB, 1, 96, 1, false, false, 3>(a, b));  // 192 x 96
  }
  out.push_back(stream_k_kernel<TA, TB, kTransA, kTransB, 1, 256, 1, false>(a, b));  // 128 x 256
  out.push_back(stream_k_kernel<TA, TB, kTransA, kTransB, 2, 128, 1, false>(a, b));  // 256 x 128
  out.push_back(stream_k_kernel<TA, TB, kTransA, kTransB, 1, 128, 1, false>(a, b));  // 128 x 128
  out.push_back(stream_k_kernel<TA, TB, kTransA, kTransB, 1, 64, 1, false>(a, b));   // 128 x 64
  out.push_back(split_kernel<TA, TB, kTransA, kTransB, 2, 256, 1, 1, false>(a, b));
  out.push_back(split_kernel<TA, TB, kTransA, kTransB, 2, 128, 1, 1, false>(a, b));
  out.push_back(split_kernel<TA, TB, kTransA, kTransB, 2, 64, 1, 1, false>(a, b));
  out.push_back(split_kernel<TA, TB, kTransA, kTransB, 1, 128, 1, 2, false>(a, b));
  out.push_back(split_kernel<TA, TB, kTransA, kTransB, 1, 64, 1, 2, false>(a, b));
  if constexpr (!kTransB) {  // an N-major B tile is made of slabs of 64
    out.push_back(split_kernel<TA, TB, kTransA, kTransB, 1, 32, 1, 2, false>(a, b));
    out.push_back(split_kernel<TA, TB, kTransA, kTransB, 1, 16, 2, 2, false>(a, b));
    out.push_back(split_kernel<TA, TB, kTransA, kTransB, 1, 8, 2, 2, false>(a, b));
  }
}

template <class TA, class TB>
void add_promoted_kernels(std::vector<GemmKernel>& out, DType a, DType b) {
  out.push_back(persistent_kernel<TA, TB, false, false, 1, 128, 1, false, true>(a, b));  // 128 x 128
  out.push_back(persistent_kernel<TA, TB, false, false, 1, 128, 1, true, true>(a, b));   // 64 x 128, twice
  out.push_back(split_kernel<TA, TB, false, false, 2, 128, 1, 1, true>(a, b));
  out.push_back(split_kernel<TA, TB, false, false, 1, 64, 1, 2, true>(a, b));
  out.push_back(split_kernel<TA, TB, false, false, 1, 32, 1, 2, true>(a, b));
  out.push_back(split_kernel<TA, TB, false, false, 1, 16, 1, 2, true>(a, b));
  out.push_back(split_kernel<TA, TB, false, false, 1, 8, 1, 2, true>(a, b));
}

}  // namespace orrery::kernels
