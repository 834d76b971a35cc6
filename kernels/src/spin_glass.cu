// Metropolis sweeps of two-dimensional Edwards-Anderson spin glasses, 64 of them at once: bit r of each word belongs to glass r, which has
// couplings of its own. Sites of one colour of the checkerboard have no bond in common, so a launch updates all of one colour, a thread a site.
//
// Of a site's four bonds `satisfied` are in their lower state; a flip changes the energy by 2 (2 satisfied - 4) |J|. It is made if that is not
// positive, else if a random number of 32 bits is below exp(-4 beta) or exp(-8 beta) of 2^32. The 64 numbers are compared from their highest bits
// on, all at once, and only as far as some comparison is still open: some 8 to 12 bits. Bit k of the 64 is word k of what Philox makes of
// (site, sweep, colour) under the seed, so a sweep is the same whatever the launch looks like.
//
// Not here: energies, exchanges of temperatures, odd or oblong lattices.
#include <algorithm>
#include <cmath>

#include "arguments.h"
#include "launch.h"
#include "philox.cuh"

namespace orrery::kernels {
namespace {

constexpr int kAcross = 32, kRows = 8;  // sites of a block
constexpr int kBits = 32;               // of a random number

struct SweepParams {
  uint64_t* spins;
  const uint64_t *right, *down;
  int64_t half;  // sites of a colour
  int size;
  uint32_t seed[2];
  uint4 below[kBits / 2];  // of each two bits from the highest on: that of the threshold of a cost of 4 in all bits, and that of a cost of 8
};

/// Bits of `open` whose random number is below the first threshold, or the second where `worst`.
__device__ __forceinline__ uint64_t accepted(const SweepParams& p, uint64_t open, uint64_t worst, uint32_t site, uint64_t sweep, uint32_t colour) {
  const uint32_t w[2] = {uint32_t(worst), uint32_t(worst >> 32)};
  uint32_t o[2] = {uint32_t(open), uint32_t(open >> 32)}, below[2] = {};
#pragma unroll 1
  for (uint32_t call = 0; call < kBits / 2 && (o[0] | o[1]); call++) {
    const uint4 random = philox(make_uint4(site, uint32_t(sweep), uint32_t(sweep >> 32), colour << 31 | call), p.seed[0], p.seed[1]), masks = p.below[call];
    const uint32_t words[2][2] = {{random.x, random.y}, {random.z, random.w}}, few[2] = {masks.x, masks.z}, fewer[2] = {masks.y, masks.w};
#pragma unroll
    for (int bit = 0; bit < 2; bit++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        // What is open is decided where the bits differ: below where the threshold's is the set one. Until then that is only a guess.
        const uint32_t threshold = (few[bit] & ~w[h]) | (fewer[bit] & w[h]);
        below[h] = (below[h] & ~o[h]) | (threshold & o[h]);
        o[h] &= ~(threshold ^ words[bit][h]);
      }
  }
  return uint64_t(below[1] & ~o[1]) << 32 | (below[0] & ~o[0]);
}

__global__ void __launch_bounds__(kAcross * kRows) update(SweepParams p, uint64_t sweep, int colour) {
  const int across = p.size / 2;
  const int j = blockIdx.x * kAcross + threadIdx.x % kAcross, y = blockIdx.y * kRows + threadIdx.x / kAcross;
  begin_overlapped();
  if (j >= across || y >= p.size) return;
  // A row of a colour has every second column: the first, or where row and colour are not both even or odd the second.
  const int odd = (y + colour) & 1;
  const int left = odd ? j : (j ? j : across) - 1, right = odd ? (j + 1 < across ? j + 1 : 0) : j;
  const int64_t mine = colour ? p.half : 0, other = p.half - mine, row = int64_t(y) * across;
  const int64_t above = int64_t(y ? y - 1 : p.size - 1) * across, below = int64_t(y + 1 < p.size ? y + 1 : 0) * across, site = row + j;
  const uint64_t s = p.spins[mine + site];
  const auto bond = [&](int64_t at, uint64_t coupling) { return ~(s ^ p.spins[other + at] ^ coupling); };  // a set bit of a coupling: it wants spins to differ
  const uint64_t a = bond(row + right, p.right[mine + site]), b = bond(row + left, p.right[other + row + left]);
  const uint64_t c = bond(below + j, p.down[mine + site]), d = bond(above + j, p.down[other + above + j]);
  const uint64_t two = a & b, two_more = c & d;
  const uint64_t worst = two & two_more, costs = (two & (c | d)) | (two_more & (a | b));  // all four satisfied; three or four
  p.spins[mine + site] = s ^ (~costs | accepted(p, costs, worst, uint32_t(site), sweep, uint32_t(colour)));
}

/// Of the 2^32 random numbers those below this flip a spin `satisfied` of whose bonds are; never quite all of them do.
uint32_t threshold(double beta, int satisfied) {
  return uint32_t(std::min(std::nearbyint(std::ldexp(std::exp(-4 * beta * (satisfied - 2)), kBits)), 4294967295.));
}

}  // namespace

Status spin_glass_sweep(const SpinGlassArgs& a, cudaStream_t stream) {
  if (a.size < 4 || a.size % 2 || a.size > 65534) return bad("size", "must be even and in [4, 65534]");
  if (a.sweeps < 0 || a.sweeps > int64_t(1) << 31) return bad("sweeps", "must be in [0, 2^31]");
  if (!(a.beta >= 0)) return bad("beta", "must not be negative");
  const struct { const char* name; const uint64_t* p; } all[] = {{"spins", a.spins}, {"right", a.right}, {"down", a.down}};
  for (const auto& x : all) {
    if (!x.p) return bad(x.name, "is null");
    if (!aligned(x.p, 8)) return bad(x.name, "is not 8-byte aligned");
  }
  const int64_t sites = a.size * a.size;
  if (Status s = apart(dense("spins", a.spins, sites * 8), {dense("right", a.right, sites * 8), dense("down", a.down, sites * 8)}); !s.ok()) return s;
  SweepParams p{};
  p.spins = a.spins, p.right = a.right, p.down = a.down, p.half = sites / 2, p.size = int(a.size);
  p.seed[0] = uint32_t(a.seed), p.seed[1] = uint32_t(a.seed >> 32);
  const uint32_t few = threshold(a.beta, 3), fewer = threshold(a.beta, 4);
  const auto mask = [](uint32_t threshold, int bit) { return threshold >> bit & 1 ? ~0u : 0u; };
  for (int i = 0; i < kBits / 2; i++) p.below[i] = make_uint4(mask(few, 31 - 2 * i), mask(fewer, 31 - 2 * i), mask(few, 30 - 2 * i), mask(fewer, 30 - 2 * i));
  const dim3 grid(unsigned((a.size / 2 + kAcross - 1) / kAcross), unsigned((a.size + kRows - 1) / kRows));
  for (int64_t i = 0; i < a.sweeps; i++)
    for (int colour = 0; colour < 2; colour++)
      if (cudaError_t e = launch_grid_overlapped(update, grid, kAcross * kRows, 0, stream, p, a.first_sweep + uint64_t(i), colour)) return launched(e);
  return {};
}

}  // namespace orrery::kernels
