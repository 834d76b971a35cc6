// The host side of GEMM, in the order it runs: check, choose, plan (kernel and parameters), launch.
#pragma once
#include <functional>
#include <vector>

#include "gemm_params.h"

namespace orrery::kernels {

/// All kernels in this build.
const std::vector<GemmKernel>& gemm_kernels();

/// Names the first argument out of contract.
Status check_gemm(const GemmArgs& args);

/// The product D' = B' A' of the same problem.
GemmArgs swapped(const GemmArgs& args);

/// Whether `kernel` stores columns of D the fast way, so that a product of row-major matrices can be computed as D' = B' A'.
bool stores_turned(const GemmArgs& args, const GemmKernel& kernel);

/// The kernel that `config` names for `args` (already swapped if config.swap), or null: no such tile, or the
/// operands' layout or the configuration's cluster does not suit it.
const GemmKernel* find_kernel(const GemmArgs& args, const GemmConfig& config);

/// Prepares `kernel` for clusters of `cluster` CTAs and says how many fit on the device at once (0: error).
/// Asked once per device, kernel and cluster size.
int max_clusters(const GemmKernel& kernel, int cluster);

/// Whether D of 16 bits lies so that boxes of its columns can be stored, and the map of these: 64 rows of `columns` columns.
bool columns_suit_tma(const Epilogue& e);
bool encode_turned(CUtensorMap* map, const Epilogue& e, int columns);

/// Fills in clusters, tiles and the order they are walked in; false: there are too many.
bool plan_tiles(const Epilogue& e, const GemmConfig& config, const GemmKernel& kernel, GemmParams* p);

/// Workspace that kStreamK wants (gemm_stream_k.cuh): two parts of a tile for each SM.
size_t stream_k_bytes(int tile_m, int tile_n);

/// Deals the K steps of the tiles that do not fill a wave, of which p has been told; the number of clusters, of `resident` that there may be. split_k:
/// that of the configuration.
int plan_stream_k(int split_k, int resident, void* workspace, GemmParams* p);

/// Steps of 128 bytes of K.
inline int64_t k_steps(const GemmArgs& a) { return (a.k * size_of(a.a.dtype) + 127) / 128; }

/// Stages that `kernel` cuts K into.
inline int64_t stages_of_k(const GemmArgs& a, const GemmKernel& kernel) {
  return (k_steps(a) + kernel.slabs - 1) / kernel.slabs;
}

/// The configurations measured best for the shapes nearest to this one, nearest first, no two alike, all of which `fits`; distance: the
/// sum of |log2| ratios of m, n and k. Parts of K (kParts) are as many as keep the number of CTAs. kind: bytes of an element of A and B,
/// kInt4Kind for int4 weights, or kPromotedKind for fp8 products that are promoted.
struct NearMeasured {
  double distance;
  GemmConfig config;
};
constexpr int kInt4Kind = 0, kPromotedKind = 3;
std::vector<NearMeasured> nearest_measured(int kind, bool b_k_major, double m, double n, double k, bool overlap,
                                           const std::function<bool(const GemmConfig&)>& fits);

/// Predicted seconds of `config` on an H200: the larger of its arithmetic, L2 and memory times plus fixed costs.
double predict_seconds(const GemmArgs& args, const GemmConfig& config);

}  // namespace orrery::kernels
