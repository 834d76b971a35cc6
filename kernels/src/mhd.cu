// Spectral differences of ideal magnetohydrodynamics: a stage of a Runge-Kutta scheme in one launch.
//
// A block has a tile of kAcross x kDeep elements and goes up a column of them, a layer at a time. The layer lies in shared memory, and so does the next one, which
// was asked for a layer ahead; what is computed comes together in a third place of the same shape and leaves by bulk copies. A thread has a line of points of one
// element, in x, then in y, then in z: values of all variables in registers, from which it makes one flux point after another and adds to the derivatives
// what that has to say. Neighbours are needed at the ends of lines only.
//
//   place           filled by                                           read by
//   layer(s % 2)    bulk copies of u, as soon as layer s - 2 is done    lines in x, y, z, and ends of neighbouring lines
//   rate            bulk copies of `base`; then x adds, y adds, z adds  bulk copies to `out`
//   faces           the Riemann flux of the lower end of each line,     lines whose upper end that is
//                   and of the tile's upper ends
//
// Invariant: each face within a tile, and each between layers of a block, is computed once and used on both sides, so that sums over all elements do not change but by
// rounding; a face between two blocks is computed by both, from the same numbers in the same order.
//
// An element begins at an even number of doubles, 2 (or, of four, 4) more than a multiple of 16: lanes that go over the elements of a tile first do not meet in banks,
// whichever way their lines go. Threads of a plane of points (fixed z) are whole warps up to four points, and then exchange what x and y need without a barrier of the block.
//
// Sums that matter are chains of fma, and the file is compiled with -fmad=false: left to itself ptxas would make one instruction of what else is a product and a sum where
// it likes, and the last bits would depend on its version.
//
// Not here: curved or unequal elements, other boundaries than periodic ones, cleaning of the field's divergence, viscosity, gravity, rotation, limiters.
#include <algorithm>
#include <cmath>

#include "arguments.h"
#include "launch.h"
#include "spectral_difference.h"

namespace orrery::kernels {
namespace {

constexpr int kVariables = 8;

template <int N>
struct Tile {
  static constexpr int kAcross = N == 6 ? 2 : 4, kDeep = 2, kElements = kAcross * kDeep;  // of six points eight elements would not fit
  static constexpr int kPoints = N * N * N, kValues = kVariables * kPoints;
  static constexpr int kApart = (kValues + 13) / 16 * 16 + (kElements == 8 ? 2 : 4);  // doubles from one element to the next; 13: kValues + 2 at least
  static constexpr int kLines = kElements * N;                                         // of a plane of points
  static constexpr int kPlane = N == 3 ? 32 : kLines;                                  // threads of one
  static constexpr bool kPlanesInWarps = 32 % kPlane == 0;
  static constexpr int kThreads = (kPlane * N + 31) / 32 * 32;
  static constexpr int kFaces = (kElements + kAcross + kDeep) * N;  // of a plane: lower ends of lines, then upper ends of the tile
  static constexpr int kShared = 8 * (3 * kElements * kApart + N * kVariables * kFaces) + 32;
  static constexpr int kBlocks = std::clamp(228 * 1024 / (kShared + 1024), 1, 12);  // that fit an SM; 12: that registers leave room for
};
static_assert(Tile<2>::kApart == 66 && Tile<3>::kApart == 226 && Tile<4>::kApart == 514 && Tile<5>::kApart == 1010 && Tile<6>::kApart == 1732);
static_assert(Tile<3>::kBlocks == 4 && Tile<4>::kBlocks == 2 && Tile<5>::kShared <= 227 * 1024 && Tile<6>::kShared <= 227 * 1024);

template <int N>
struct Params {
  double* out;
  const double *u, *base;
  int nx, ny, nz, tiles_x, tiles_y, layers;  // layers: of a block
  double base_weight, u_weight, gamma;
  double interpolate[N + 1][N];
  double differentiate[3][N + 1][N];  // of each axis [flux point][solution point], times what it counts for in `out`
};

/// Where a variable of a state lies whose vectors have the normal's component first, the others in cyclic order.
__host__ __device__ constexpr int variable(int axis, int c) { return c == 0 || c == 4 ? c : c < 4 ? 1 + (axis + c - 1) % 3 : 5 + (axis + c - 5) % 3; }

/// A state along a normal is q[variable], its flux f[variable]; f[5], of the field along the normal, is zero inside an element.
/// 1 / x and the root of x within two units of the last place, for what densities and speeds can be: of the exact ones a branch for the rest of all numbers
/// would be called, and what is in registers here would have to be out of its way.
__device__ __forceinline__ double inverse_of(double x) {
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));  // 20 bits, so that the cube of its error is nothing
  const double off = fma(-x, y, 1.);
  return fma(y, fma(off, off, off), y);
}
__device__ __forceinline__ double root_of(double x) {
  const double least = 1e-300;
  x = x > least ? x : least;
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  const double root = x * y, off = fma(-root, y, 1.);
  return fma(root, off * fma(0.375, off, 0.5), root);
}

struct Waves {  // what the speed of signals needs of what the flux does
  double inverse, across, field, pressure, velocity;  // across: the field's square without the normal's part
};

__device__ __forceinline__ Waves flux_of(const double (&q)[kVariables], double gamma, double (&f)[kVariables]) {
  const double inverse = inverse_of(q[0]), vn = q[1] * inverse, vt = q[2] * inverse, vs = q[3] * inverse;
  const double across = fma(q[7], q[7], q[6] * q[6]), field = fma(q[5], q[5], across);
  const double moving = fma(q[3], vs, fma(q[2], vt, q[1] * vn)), along = fma(vs, q[7], fma(vt, q[6], vn * q[5]));
  const double pressure = (gamma - 1) * fma(-0.5, moving + field, q[4]), total = fma(0.5, field, pressure);
  f[0] = q[1];
  f[1] = fma(q[1], vn, fma(-q[5], q[5], total));
  f[2] = fma(q[1], vt, -(q[5] * q[6]));
  f[3] = fma(q[1], vs, -(q[5] * q[7]));
  f[4] = fma(q[4] + total, vn, -(q[5] * along));
  f[5] = 0;
  f[6] = fma(vn, q[6], -(vt * q[5]));
  f[7] = fma(vn, q[7], -(vs * q[5]));
  return {inverse, across, field, pressure, vn};
}

/// The fastest signal along the normal. Its discriminant, (a^2 + b^2)^2 - 4 a^2 b_n^2, is written as a sum of two squares.
__device__ __forceinline__ double speed(const Waves& s, double gamma) {
  const double sound = gamma * s.pressure * s.inverse, alfven = s.field * s.inverse, apart = sound - alfven;
  const double root = root_of(fma(4 * sound, s.across * s.inverse, apart * apart));
  return fabs(s.velocity) + root_of(0.5 * (sound + alfven + root));
}

__device__ __forceinline__ void rusanov(const double (&low)[kVariables], const double (&high)[kVariables], double gamma, double (&f)[kVariables]) {
  double g[kVariables];
  const double a = speed(flux_of(low, gamma, f), gamma), b = speed(flux_of(high, gamma, g), gamma), half = 0.5 * (a > b ? a : b);
#pragma unroll
  for (int c = 0; c < kVariables; c++) f[c] = fma(-half, high[c] - low[c], 0.5 * (f[c] + g[c]));
}

/// A line of an element: its first value, and how far from one to the next; in shared or global memory.
struct Line {
  const double* first;
  int step;
};

/// The state at an end of a line, from memory; place[c]: where variable c of a state along the normal begins.
template <int N>
__device__ __forceinline__ void end_of(const Params<N>& p, const Line& line, bool upper, const int (&place)[kVariables], double (&q)[kVariables]) {
  const double(&weight)[N] = p.interpolate[upper ? N : 0];
#pragma unroll
  for (int c = 0; c < kVariables; c++) {
    const double* const at = line.first + place[c];
#pragma unroll
    for (int i = 0; i < N; i++) q[c] = i ? fma(weight[i], at[i * line.step], q[c]) : weight[i] * at[i * line.step];
  }
}

/// A block's tile, and where this thread is in it.
template <int N>
struct Place {
  using T = Tile<N>;
  int x0, y0, cols, rows;    // the tile's first element; how many there are, less than T has at the edge of the block of elements
  int z0, layers;
  int plane, line, element;  // of this thread: plane of points, line of the plane, element of the tile
  bool active;

  __device__ explicit Place(const Params<N>& p) {
    int b = blockIdx.x;
    x0 = b % p.tiles_x * T::kAcross, b /= p.tiles_x;
    y0 = b % p.tiles_y * T::kDeep, z0 = b / p.tiles_y * p.layers;
    cols = min(T::kAcross, p.nx - x0), rows = min(T::kDeep, p.ny - y0), layers = min(p.layers, p.nz - z0);
    plane = threadIdx.x / T::kPlane;
    const int r = threadIdx.x - plane * T::kPlane;
    line = r / T::kElements, element = r % T::kElements;
    active = plane < N && line < N && col() < cols && row() < rows;
  }
  __device__ int col() const { return element % T::kAcross; }
  __device__ int row() const { return element / T::kAcross; }
  /// An element of the whole block of elements, by its place; one beyond an edge is that of the other side.
  static __device__ int64_t wrapped(const Params<N>& p, int x, int y, int z) {
    x = x < 0 ? x + p.nx : x >= p.nx ? x - p.nx : x, y = y < 0 ? y + p.ny : y >= p.ny ? y - p.ny : y, z = z < 0 ? z + p.nz : z >= p.nz ? z - p.nz : z;
    return ((int64_t(z) * p.ny + y) * p.nx + x) * T::kValues;
  }
  /// Where in an element the line of `plane` and `line` begins along an axis, and its step.
  template <int kAxis>
  static __device__ int first(int plane, int line) {
    return kAxis == 0 ? (plane * N + line) * N : kAxis == 1 ? plane * N * N + line : plane * N + line;
  }
  static __host__ __device__ constexpr int step(int axis) { return axis == 0 ? 1 : axis == 1 ? N : N * N; }
};

/// Until what the threads of a plane have written to shared memory is seen by all of them.
template <int N>
__device__ __forceinline__ void meet_in_plane() {
  if constexpr (Tile<N>::kPlanesInWarps) __syncwarp();
  else __syncthreads();
}

template <int N>
struct Memory {  // shared
  static constexpr int kElements = Tile<N>::kElements * Tile<N>::kApart;
  double* start;
  uint32_t barriers;
  __device__ double* layer(int s) const { return start + (s & 1) * kElements; }
  __device__ double* rate() const { return start + 2 * kElements; }
  __device__ double* faces(int plane) const { return start + 3 * kElements + plane * kVariables * Tile<N>::kFaces; }
  __device__ uint32_t full(int s) const { return barriers + (s & 1) * 8; }  // a layer has come
  __device__ uint32_t ready() const { return barriers + 16; }               // `rate` may be added to
};

/// For threads without a line, which use none of it: what they left as it was the compiler would keep in registers from one layer to the next.
__device__ __forceinline__ void clear(double (&f)[kVariables]) {
#pragma unroll
  for (int c = 0; c < kVariables; c++) f[c] = 0;
}

/// What a thread does along one axis.
template <int N, int kAxis>
struct Sweep {
  using T = Tile<N>;
  using Values = double[kVariables][N];
  Values u;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int c = 0; c < kVariables; c++)
#pragma unroll
      for (int i = 0; i < N; i++) u[c][i] = 0;
  }
  // By twos where a line's values lie side by side and are even in number: a step of an even number of doubles from lane to lane would meet in banks.
  static constexpr bool kPairs = kAxis == 0 && N % 2 == 0;
  static __device__ __forceinline__ void load(const double* line, Values& to) {
#pragma unroll
    for (int c = 0; c < kVariables; c++) {
      const double* const at = line + variable(kAxis, c) * T::kPoints;
#pragma unroll
      for (int i = 0; i < N; i += kPairs ? 2 : 1) {
        if constexpr (kPairs) {
          const double2 v = *reinterpret_cast<const double2*>(at + i);
          to[c][i] = v.x, to[c][i + 1] = v.y;
        } else {
          to[c][i] = at[i * Place<N>::step(kAxis)];
        }
      }
    }
  }
  static __device__ __forceinline__ void store(double* line, const Values& from) {
#pragma unroll
    for (int c = 0; c < kVariables; c++) {
      double* const at = line + variable(kAxis, c) * T::kPoints;
#pragma unroll
      for (int i = 0; i < N; i += kPairs ? 2 : 1) {
        if constexpr (kPairs) *reinterpret_cast<double2*>(at + i) = make_double2(from[c][i], from[c][i + 1]);
        else at[i * Place<N>::step(kAxis)] = from[c][i];
      }
    }
  }

  __device__ __forceinline__ void at_flux_point(const Params<N>& p, int j, double (&q)[kVariables]) const {
    const double(&weight)[N] = p.interpolate[j];
#pragma unroll
    for (int c = 0; c < kVariables; c++)
#pragma unroll
      for (int i = 0; i < N; i++) q[c] = i ? fma(weight[i], u[c][i], q[c]) : weight[i] * u[c][i];
  }

  /// The flux between this line's lower (or upper) end and the line beside it.
  __device__ __forceinline__ void end_flux(const Params<N>& p, bool upper, const double* beside, double (&f)[kVariables]) const {
    int place[kVariables];
#pragma unroll
    for (int c = 0; c < kVariables; c++) place[c] = variable(kAxis, c) * T::kPoints;
    double own[kVariables], other[kVariables];
    end_of<N>(p, {beside, Place<N>::step(kAxis)}, !upper, place, other);
    at_flux_point(p, upper ? N : 0, own);
    if (upper) rusanov(own, other, p.gamma, f);
    else rusanov(other, own, p.gamma, f);
  }

  __device__ __forceinline__ void add(const Params<N>& p, int j, const double (&f)[kVariables], bool inside, Values& rate) const {
    const double(&weight)[N] = p.differentiate[kAxis][j];
#pragma unroll
    for (int c = 0; c < kVariables; c++) {
      if (c == 5 && inside) continue;
#pragma unroll
      for (int i = 0; i < N; i++) rate[c][i] = fma(weight[i], f[c], rate[c][i]);
    }
  }
  /// Adds to the derivatives what the fluxes at both ends and inside have to say. One flux point after the other, in a loop: side by side they want more
  /// registers than there are.
  __device__ __forceinline__ void differentiate(const Params<N>& p, const double (&low)[kVariables], const double (&high)[kVariables], Values& rate) const {
    add(p, 0, low, false, rate);
    add(p, N, high, false, rate);
#pragma unroll 1
    for (int j = 1; j < N; j++) {
      double q[kVariables], f[kVariables];
      at_flux_point(p, j, q);
      flux_of(q, p.gamma, f);
      add(p, j, f, true, rate);
    }
  }
};

template <int N>
__device__ __forceinline__ void put_face(double* faces, int at, const double (&f)[kVariables]) {
#pragma unroll
  for (int c = 0; c < kVariables; c++) faces[c * Tile<N>::kFaces + at] = f[c];
}
template <int N>
__device__ __forceinline__ void get_face(const double* faces, int at, double (&f)[kVariables]) {
#pragma unroll
  for (int c = 0; c < kVariables; c++) f[c] = faces[c * Tile<N>::kFaces + at];
}

/// Places of faces in a plane: of lower ends, of the tile's upper ends in x, and of those in y.
template <int N>
__device__ __forceinline__ int upper_face(int line, int which) { return Tile<N>::kLines + line * (Tile<N>::kAcross + Tile<N>::kDeep) + which; }

/// The fluxes of the tile's upper ends, x and y in one go: as many as the threads of a plane.
template <int N>
__device__ __forceinline__ void upper_ends(const Params<N>& p, const Place<N>& at, const double* layer, double* faces, int z) {
  using T = Tile<N>;
  constexpr int kWhich = T::kAcross + T::kDeep;
  static_assert(kWhich * N <= T::kPlane);
  const int r = threadIdx.x - at.plane * T::kPlane, line = r / kWhich, which = r % kWhich;
  const bool in_x = which < T::kDeep;
  if (at.plane >= N || line >= N || (in_x ? which >= at.rows : which - T::kDeep >= at.cols)) return;
  const int axis = in_x ? 0 : 1, col = in_x ? at.cols - 1 : which - T::kDeep, row = in_x ? which : at.rows - 1;
  const int first = in_x ? Place<N>::template first<0>(at.plane, line) : Place<N>::template first<1>(at.plane, line), step = in_x ? 1 : N;
  int place[kVariables];
#pragma unroll
  for (int c = 0; c < kVariables; c++) place[c] = (axis ? variable(1, c) : variable(0, c)) * T::kPoints;
  double low[kVariables], high[kVariables], f[kVariables];
  end_of<N>(p, {p.u + Place<N>::wrapped(p, at.x0 + col + in_x, at.y0 + row + !in_x, z) + first, step}, false, place, high);
  end_of<N>(p, {layer + (row * T::kAcross + col) * T::kApart + first, step}, true, place, low);
  rusanov(low, high, p.gamma, f);
  put_face<N>(faces, upper_face<N>(line, which), f);
}

/// Lines in x or in y of a layer: to `rate`, which x finds empty or with `base` in it.
template <int N, int kAxis>
__device__ __forceinline__ void sweep_plane(const Params<N>& p, const Place<N>& at, const Memory<N>& m, const double* layer, double* faces, int s) {
  using T = Tile<N>;
  const int first = Place<N>::template first<kAxis>(at.plane, at.line), own = at.element * T::kApart + first, face = at.line * T::kElements + at.element;
  Sweep<N, kAxis> sweep;
  double low[kVariables];
  if (at.active) {
    sweep.load(layer + own, sweep.u);
    const bool inside = kAxis == 0 ? at.col() > 0 : at.row() > 0;
    constexpr int kBefore = kAxis == 0 ? 1 : T::kAcross;  // elements of a tile
    const double* const beside = inside ? layer + own - kBefore * T::kApart : p.u + Place<N>::wrapped(p, at.x0 + at.col() - (kAxis == 0), at.y0 + at.row() - (kAxis == 1), at.z0 + s) + first;
    sweep.end_flux(p, false, beside, low);
    put_face<N>(faces, face, low);
  } else {
    sweep.clear(), clear(low);
  }
  meet_in_plane<N>();
  if (at.active) {
    double high[kVariables];
    typename Sweep<N, kAxis>::Values rate;
    const bool last = kAxis == 0 ? at.col() == at.cols - 1 : at.row() == at.rows - 1;
    get_face<N>(faces, !last ? face + (kAxis == 0 ? 1 : T::kAcross) : upper_face<N>(at.line, kAxis == 0 ? at.row() : T::kDeep + at.col()), high);
    double* const to = m.rate() + own;
    if constexpr (kAxis == 0) {
#pragma unroll
      for (int c = 0; c < kVariables; c++)
#pragma unroll
        for (int i = 0; i < N; i++) rate[c][i] = p.u_weight * sweep.u[c][i];
    } else {
      sweep.load(to, rate);
    }
    sweep.differentiate(p, low, high, rate);
    if constexpr (kAxis == 0) {
      ptx::mbarrier_wait(m.ready(), s & 1);
      if (p.base) {
        typename Sweep<N, kAxis>::Values base;
        sweep.load(to, base);
#pragma unroll
        for (int c = 0; c < kVariables; c++)
#pragma unroll
          for (int i = 0; i < N; i++) rate[c][i] = fma(p.base_weight, base[c][i], rate[c][i]);
      }
    }
    sweep.store(to, rate);
  }
}

/// Asks for a layer of elements of the tile; one thread.
template <int N>
__device__ __forceinline__ void ask(const Params<N>& p, const Place<N>& at, const double* from, double* to, int z, uint32_t bar) {
  using T = Tile<N>;
  ptx::mbarrier_arrive_expect_tx(bar, uint32_t(at.rows * at.cols * T::kValues * 8));
  for (int row = 0; row < at.rows; row++)
    for (int col = 0; col < at.cols; col++)
      ptx::bulk_load(ptx::smem_address(to + (row * T::kAcross + col) * T::kApart), from + Place<N>::wrapped(p, at.x0 + col, at.y0 + row, z), T::kValues * 8, bar);
}

template <int N>
__global__ void __launch_bounds__(Tile<N>::kThreads, Tile<N>::kBlocks) spectral_difference(const __grid_constant__ Params<N> p) {
  using T = Tile<N>;
  extern __shared__ __align__(16) double shared[];
  Memory<N> m{shared, 0};
  m.barriers = ptx::smem_address(m.faces(N));
  const Place<N> at(p);
  if (threadIdx.x == 0) {
    for (uint32_t bar : {m.full(0), m.full(1), m.ready()}) ptx::mbarrier_init(bar, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  begin_overlapped();
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2 && s < at.layers; s++) ask<N>(p, at, p.u, m.layer(s), at.z0 + s, m.full(s));
    if (p.base) ask<N>(p, at, p.base, m.rate(), at.z0, m.ready());
    else ptx::mbarrier_arrive(m.ready());
  }
  double* const faces = m.faces(min(at.plane, N - 1));
  const int first = Place<N>::template first<2>(at.plane, at.line), own = at.element * T::kApart + first;
  const auto beside = [&](int z) { return p.u + Place<N>::wrapped(p, at.x0 + at.col(), at.y0 + at.row(), z) + first; };
  double low[kVariables];  // the flux below this thread's line in z
  ptx::mbarrier_wait(m.full(0), 0);
  if (at.active) {
    Sweep<N, 2> sweep;
    sweep.load(m.layer(0) + own, sweep.u);
    sweep.end_flux(p, false, beside(at.z0 - 1), low);
  } else {
    clear(low);
  }
#pragma unroll 1
  for (int s = 0; s < at.layers; s++) {
    const double* const layer = m.layer(s);
    ptx::mbarrier_wait(m.full(s), s >> 1 & 1);
    upper_ends<N>(p, at, layer, faces, at.z0 + s);
    if (threadIdx.x == 0 && s > 0) {  // what was in `rate` has left by now
      ptx::bulk_wait_group_read<0>();
      if (p.base) ask<N>(p, at, p.base, m.rate(), at.z0 + s, m.ready());
      else ptx::mbarrier_arrive(m.ready());
    }
    sweep_plane<N, 0>(p, at, m, layer, faces, s);
    meet_in_plane<N>();  // y takes the places of x's faces
    sweep_plane<N, 1>(p, at, m, layer, faces, s);
    __syncthreads();
    const bool more = s + 1 < at.layers;
    if (more) ptx::mbarrier_wait(m.full(s + 1), (s + 1) >> 1 & 1);
    if (at.active) {
      Sweep<N, 2> sweep;
      sweep.load(layer + own, sweep.u);
      double high[kVariables];
      typename Sweep<N, 2>::Values rate;
      sweep.end_flux(p, true, more ? m.layer(s + 1) + own : beside(at.z0 + s + 1), high);
      sweep.load(m.rate() + own, rate);
      sweep.differentiate(p, low, high, rate);
      sweep.store(m.rate() + own, rate);
#pragma unroll
      for (int c = 0; c < kVariables; c++) low[c] = high[c];
    }
    ptx::fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int row = 0; row < at.rows; row++)
        for (int col = 0; col < at.cols; col++)
          ptx::bulk_store(p.out + Place<N>::wrapped(p, at.x0 + col, at.y0 + row, at.z0 + s), ptx::smem_address(m.rate() + (row * T::kAcross + col) * T::kApart), T::kValues * 8);
      ptx::bulk_commit_group();
      if (s + 2 < at.layers) ask<N>(p, at, p.u, m.layer(s), at.z0 + s + 2, m.full(s));
    }
  }
  if (threadIdx.x == 0) ptx::bulk_wait_group_read<0>();
}

/// Layers of elements for each block: few enough that all SMs have something to do in every round of blocks, as many as that leaves; a block's start counts as a layer.
int64_t layers_of_block(int64_t columns, int64_t nz, int64_t at_once) {
  int64_t best = nz, least = INT64_MAX;
  for (int64_t parts = 1; parts <= nz; parts++) {
    const int64_t layers = (nz + parts - 1) / parts, blocks = columns * ((nz + layers - 1) / layers), cost = (blocks + at_once - 1) / at_once * (layers + 1);
    if (cost < least) least = cost, best = layers;
  }
  return best;
}

template <int N>
cudaError_t launch(const MhdArgs& a, cudaStream_t stream) {
  using T = Tile<N>;
  Params<N> p{};
  p.out = a.out, p.u = a.u, p.base = a.base, p.nx = int(a.nx), p.ny = int(a.ny), p.nz = int(a.nz);
  p.base_weight = a.base_weight, p.u_weight = a.u_weight, p.gamma = a.gamma;
  const SpectralDifference method(N);
  const double scale[3] = {-2 * a.rate_weight / a.size_x, -2 * a.rate_weight / a.size_y, -2 * a.rate_weight / a.size_z};
  for (int i = 0; i < N; i++)
    for (int j = 0; j <= N; j++) {
      p.interpolate[j][i] = method.interpolate[j][i];
      for (int axis = 0; axis < 3; axis++) p.differentiate[axis][j][i] = scale[axis] * method.differentiate[i][j];
    }
  const int64_t tiles_x = (a.nx + T::kAcross - 1) / T::kAcross, tiles_y = (a.ny + T::kDeep - 1) / T::kDeep, columns = tiles_x * tiles_y;
  const int64_t layers = layers_of_block(columns, a.nz, int64_t(sm_count()) * T::kBlocks);
  p.tiles_x = int(tiles_x), p.tiles_y = int(tiles_y), p.layers = int(layers);
  if (cudaError_t e = cudaFuncSetAttribute(spectral_difference<N>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kShared)) return e;
  return launch_overlapped(spectral_difference<N>, columns * ((a.nz + layers - 1) / layers), T::kThreads, T::kShared, stream, p);
}

}  // namespace

Status mhd_residual(const MhdArgs& a, cudaStream_t stream) {
  constexpr int64_t kMostElements = int64_t(1) << 30;
  const struct { const char* name; int64_t count; } counts[] = {{"nx", a.nx}, {"ny", a.ny}, {"nz", a.nz}};
  for (const auto& c : counts)
    if (c.count < 0 || c.count > kMostElements) return bad(c.name, "must be in [0, 2^30]");
  if (a.order < 2 || a.order > kMostPoints) return bad("order", "must be in [2, 6]");
  const struct { const char* name; double size; } sizes[] = {{"size_x", a.size_x}, {"size_y", a.size_y}, {"size_z", a.size_z}};
  for (const auto& s : sizes)
    if (!(s.size > 0) || std::isinf(s.size)) return bad(s.name, "must be positive and finite");
  if (!(a.gamma > 1) || std::isinf(a.gamma)) return bad("gamma", "must be above 1 and finite");
  const struct { const char* name; double weight; } weights[] = {{"base_weight", a.base_weight}, {"u_weight", a.u_weight}, {"rate_weight", a.rate_weight}};
  for (const auto& w : weights)
    if (!std::isfinite(w.weight)) return bad(w.name, "must be finite");
  const int64_t elements = product(product(a.nx, a.ny), a.nz);
  if (elements > kMostElements) return bad("nz", "makes more than 2^30 elements with nx and ny");
  if (elements == 0) return {};
  const struct { const char* name; const double* p; bool may_be_null; } all[] = {{"out", a.out, false}, {"u", a.u, false}, {"base", a.base, true}};
  for (const auto& x : all) {
    if (!x.p && !x.may_be_null) return bad(x.name, "is null");
    if (!aligned(x.p, 16)) return bad(x.name, "is not 16-byte aligned");
  }
  const int64_t bytes = elements * a.order * a.order * a.order * kVariables * 8;
  if (Status s = apart(dense("out", a.out, bytes), {dense("u", a.u, bytes)}, {dense("base", a.base, bytes)}); !s.ok()) return s;
  switch (a.order) {
    case 2: return launched(launch<2>(a, stream));
    case 3: return launched(launch<3>(a, stream));
    case 4: return launched(launch<4>(a, stream));
    case 5: return launched(launch<5>(a, stream));
    default: return launched(launch<6>(a, stream));
  }
}

}  // namespace orrery::kernels
