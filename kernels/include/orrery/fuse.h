// Fusion: a chain of elementwise and row-reduction steps, written as expressions, becomes one kernel. Header only, C++20.
//
//   using namespace orrery::fuse;
//   map(stream, n, out(y) <<= silu(in(x)) * in(g));                        // one kernel, any number of stores
//
//   auto v = in(x);
//   auto e = exp(v - row_max<0>(v));
//   rows(stream, count, cols, out(y) <<= e / row_sum<1>(e));               // softmax: one read, one write of memory
//
//   many(stream, problem(n1, out(a) <<= in(b) + 1.f), problem(n2, ...));   // small problems side by side in one launch
//
// An expression is a value: pointers, constants and the tree of operations, passed to the kernel as its parameter. All
// arithmetic is f32; f16 and bf16 are converted where they are read and written. A reduction's template argument is its
// slot: the same slot in two places is the same reduction and is computed once. In `rows`, an input or output is a dense
// matrix, `per_row` and `per_col` are vectors; these and reductions have no meaning elsewhere and are refused by the
// compiler. Inputs of rows are read again for each reduction they occur in (from L1 or L2, not from memory, for rows that
// fit there).
//
// Every launch returns a Result: before anything is launched the name of an argument that is out of contract (n, count, cols,
// or in, out, per_row, per_col for a pointer that is null, misaligned for its type, or written while something else has some of
// its bytes; the very same array as input and output is fine), else the CUDA error of the launch. No compiler of its own is involved: the C++ compiler does the fusing.
// Layout of a node: `at<V>(c, i)` the V values from flat index i on; `prepare(c)` the reductions below it; `aligned()`
// whether its pointers allow 16-byte accesses; `kOfRows` whether it means something in rows only. Not here: products (kernels.h).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace orrery::fuse {

constexpr int kThreads = 256, kSlots = 8;

/// What a launch returns: the argument at fault, null if none is, and what the CUDA runtime said.
struct Result {
  const char* argument = nullptr;
  cudaError_t error = cudaSuccess;
  bool ok() const { return error == cudaSuccess; }
  operator cudaError_t() const { return error; }
};

template <int V>
struct Lanes {
  float v[V];
};

/// Where a value is asked for: the row, and what its reductions have come to.
struct Context {
  int64_t row = 0, cols = 0;
  float slot[kSlots] = {};
  unsigned done = 0;
  float* scratch = nullptr;  // shared, one float a warp
};

namespace detail {

template <class T>
__device__ __forceinline__ float widen(T v) {
  if constexpr (std::is_same_v<T, __half>) return __half2float(v);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __bfloat162float(v);
  else return float(v);
}
template <class T>
__device__ __forceinline__ T narrow(float v) {
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(v);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(v);
  else return T(v);
}

template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Chunk {
  T v[V];
};

template <int V, class T>
__device__ __forceinline__ Lanes<V> load(const T* p) {
  Lanes<V> r;
  const Chunk<T, V> c = *reinterpret_cast<const Chunk<T, V>*>(p);
#pragma unroll
  for (int k = 0; k < V; k++) r.v[k] = widen(c.v[k]);
  return r;
}

inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// An array that an expression or a store names.
enum class Kind { kIn, kOut, kPerRow, kPerCol };
struct Array {
  const char* name;
  const void* p;
  int size;  // of an element
  Kind kind;
  int64_t count = 0;
  int problem = 0;
  bool shares(const Array& o) const {
    const auto x = reinterpret_cast<uintptr_t>(p), y = reinterpret_cast<uintptr_t>(o.p);
    return count > 0 && o.count > 0 && x < y + uintptr_t(o.count * o.size) && y < x + uintptr_t(count * size);
  }
};

/// The first fault of arrays whose counts are known.
inline const char* fault_of(const std::vector<Array>& all) {
  for (const Array& a : all)
    if (a.count > 0 && (!a.p || reinterpret_cast<uintptr_t>(a.p) % uintptr_t(a.size))) return a.name;
  for (size_t i = 0; i < all.size(); i++)
    for (size_t j = 0; j < all.size(); j++) {
      const Array &out = all[i], &other = all[j];
      if (i == j || out.kind != Kind::kOut || !out.shares(other)) continue;
      const bool in_place = other.kind == Kind::kIn && other.problem == out.problem && other.p == out.p && other.size == out.size;
      if (!in_place) return out.name;
    }
  return nullptr;
}

}  // namespace detail

struct Node {};
template <class E>
concept Expression = std::is_base_of_v<Node, E>;

/// A dense array or matrix.
template <class T>
struct Input : Node {
  const T* p;
  explicit Input(const T* q) : p(q) {}
  template <int V>
  __device__ Lanes<V> at(const Context&, int64_t i) const { return detail::load<V>(p + i); }
  __device__ void prepare(Context&) const {}
  bool aligned() const { return detail::aligned(p); }
  void list(std::vector<detail::Array>& to) const { to.push_back({"in", p, int(sizeof(T)), detail::Kind::kIn}); }
  static constexpr int kWidest = 16 / int(sizeof(T));
  static constexpr bool kOfRows = false;
};
/// A value for each row, or each column, of `rows`.
template <class T, bool kRow>
struct Broadcast : Node {
  const T* p;
  explicit Broadcast(const T* q) : p(q) {}
  template <int V>
  __device__ Lanes<V> at(const Context& c, int64_t i) const {
    if constexpr (!kRow) return detail::load<V>(p + (i - c.row * c.cols));
    Lanes<V> r;
    const float v = detail::widen(p[c.row]);
#pragma unroll
    for (int k = 0; k < V; k++) r.v[k] = v;
    return r;
  }
  __device__ void prepare(Context&) const {}
  bool aligned() const { return kRow || detail::aligned(p); }
  void list(std::vector<detail::Array>& to) const {
    to.push_back({kRow ? "per_row" : "per_col", p, int(sizeof(T)), kRow ? detail::Kind::kPerRow : detail::Kind::kPerCol});
  }
  static constexpr int kWidest = kRow ? 1 : 16 / int(sizeof(T));
  static constexpr bool kOfRows = true;
};
struct Constant : Node {
  float value;
  explicit Constant(float v) : value(v) {}
  template <int V>
  __device__ Lanes<V> at(const Context&, int64_t) const {
    Lanes<V> r;
#pragma unroll
    for (int k = 0; k < V; k++) r.v[k] = value;
    return r;
  }
  __device__ void prepare(Context&) const {}
  bool aligned() const { return true; }
  void list(std::vector<detail::Array>&) const {}
  static constexpr int kWidest = 1;
  static constexpr bool kOfRows = false;
};

/// One to three operands and what to do with an element of each.
template <class F, Expression... E>
struct Apply : Node {
  std::tuple<E...> operands;
  explicit Apply(E... e) : operands(e...) {}
  template <int V>
  __device__ Lanes<V> at(const Context& c, int64_t i) const { return at_all<V>(c, i, std::index_sequence_for<E...>{}); }
  __device__ void prepare(Context& c) const { prepare_all(c, std::index_sequence_for<E...>{}); }
  bool aligned() const {
    return std::apply([](const auto&... e) { return (e.aligned() && ...); }, operands);
  }
  void list(std::vector<detail::Array>& to) const {
    std::apply([&](const auto&... e) { (e.list(to), ...); }, operands);
  }
  static constexpr int kWidest = [] { int most = 1; ((most = E::kWidest > most ? E::kWidest : most), ...); return most; }();
  static constexpr bool kOfRows = (E::kOfRows || ...);

 private:
  template <int V, size_t... I>
  __device__ Lanes<V> at_all(const Context& c, int64_t i, std::index_sequence<I...>) const {
    const Lanes<V> in[] = {std::get<I>(operands).template at<V>(c, i)...};
    Lanes<V> r;
#pragma unroll
    for (int k = 0; k < V; k++) r.v[k] = F::apply(in[I].v[k]...);
    return r;
  }
  template <size_t... I>
  __device__ void prepare_all(Context& c, std::index_sequence<I...>) const {
    (std::get<I>(operands).prepare(c), ...);
  }
};

/// The sum or maximum of an expression over a row; kSlot names it.
template <int kSlot, bool kMax, Expression E>
struct Reduction : Node {
  static_assert(kSlot >= 0 && kSlot < kSlots);
  E of;
  explicit Reduction(E e) : of(e) {}
  template <int V>
  __device__ Lanes<V> at(const Context& c, int64_t) const {
    Lanes<V> r;
#pragma unroll
    for (int k = 0; k < V; k++) r.v[k] = c.slot[kSlot];
    return r;
  }
  __device__ void prepare(Context& c) const {
    if (c.done >> kSlot & 1) return;
    of.prepare(c);
    float mine = kMax ? -INFINITY : 0.f;
    for (int64_t i = threadIdx.x; i < c.cols; i += kThreads) mine = combine(mine, of.template at<1>(c, c.row * c.cols + i).v[0]);
    for (int d = 16; d; d /= 2) mine = combine(mine, __shfl_xor_sync(~0u, mine, d));
    __syncthreads();  // the scratch may still be read
    if (threadIdx.x % 32 == 0) c.scratch[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = c.scratch[0];
    for (int w = 1; w < kThreads / 32; w++) mine = combine(mine, c.scratch[w]);
    c.slot[kSlot] = mine;
    c.done |= 1u << kSlot;
  }
  bool aligned() const { return true; }  // its operand is read one by one
  void list(std::vector<detail::Array>& to) const { of.list(to); }
  static constexpr int kWidest = 1;
  static constexpr bool kOfRows = true;

 private:
  __device__ static float combine(float a, float b) { return kMax ? fmaxf(a, b) : a + b; }
};

/// A store: `out(p) <<= expression`.
template <class T, Expression E>
struct Store {
  T* p;
  E value;
  template <int V>
  __device__ void run(const Context& c, int64_t i) const {
    const Lanes<V> r = value.template at<V>(c, i);
    detail::Chunk<T, V> out;
#pragma unroll
    for (int k = 0; k < V; k++) out.v[k] = detail::narrow<T>(r.v[k]);
    *reinterpret_cast<detail::Chunk<T, V>*>(p + i) = out;
  }
  __device__ void prepare(Context& c) const { value.prepare(c); }
  bool aligned() const { return detail::aligned(p) && value.aligned(); }
  void list(std::vector<detail::Array>& to) const {
    to.push_back({"out", p, int(sizeof(T)), detail::Kind::kOut});
    value.list(to);
  }
  static constexpr int kWidest = 16 / int(sizeof(T)) > E::kWidest ? 16 / int(sizeof(T)) : E::kWidest;
  static constexpr bool kOfRows = E::kOfRows;
};
template <class T>
struct Output {
  T* p;
  template <Expression E>
  Store<T, E> operator<<=(E e) const { return {p, e}; }
};

template <class T>
Input<T> in(const T* p) { return Input<T>(p); }
template <class T>
Broadcast<T, true> per_row(const T* p) { return Broadcast<T, true>(p); }
template <class T>
Broadcast<T, false> per_col(const T* p) { return Broadcast<T, false>(p); }
template <class T>
Output<T> out(T* p) { return {p}; }
template <int kSlot, Expression E>
auto row_sum(E e) { return Reduction<kSlot, false, E>(e); }
template <int kSlot, Expression E>
auto row_max(E e) { return Reduction<kSlot, true, E>(e); }

namespace detail {
inline Constant node(float v) { return Constant(v); }
template <Expression E>
E node(E e) { return e; }
template <class A>
concept Operand = Expression<A> || std::is_convertible_v<A, float>;
template <class A, class B>
concept Operands = Operand<A> && Operand<B> && (Expression<A> || Expression<B>);
}  // namespace detail

#define ORK_FUSE_BINARY(name, type, value)                          \
  struct type {                                                     \
    __device__ static float apply(float a, float b) { return value; } \
  };                                                                \
  template <class A, class B>                                       \
    requires detail::Operands<A, B>                                 \
  auto name(A a, B b) {                                             \
    return Apply<type, decltype(detail::node(a)), decltype(detail::node(b))>(detail::node(a), detail::node(b)); \
  }
ORK_FUSE_BINARY(operator+, Add, a + b)
ORK_FUSE_BINARY(operator-, Subtract, a - b)
ORK_FUSE_BINARY(operator*, Multiply, a * b)
ORK_FUSE_BINARY(operator/, Divide, a / b)
ORK_FUSE_BINARY(max, Larger, fmaxf(a, b))
ORK_FUSE_BINARY(min, Smaller, fminf(a, b))
#undef ORK_FUSE_BINARY

#define ORK_FUSE_UNARY(name, type, value)                    \
  struct type {                                              \
    __device__ static float apply(float a) { return value; } \
  };                                                         \
  template <Expression A>                                    \
  auto name(A a) {                                           \
    return Apply<type, A>(a);                                \
  }
ORK_FUSE_UNARY(operator-, Negate, -a)
ORK_FUSE_UNARY(exp, Exp, expf(a))
ORK_FUSE_UNARY(log, Log, logf(a))
ORK_FUSE_UNARY(sqrt, Sqrt, sqrtf(a))
ORK_FUSE_UNARY(rsqrt, Rsqrt, rsqrtf(a))
ORK_FUSE_UNARY(tanh, Tanh, tanhf(a))
ORK_FUSE_UNARY(abs, Abs, fabsf(a))
ORK_FUSE_UNARY(relu, Relu, fmaxf(a, 0.f))
ORK_FUSE_UNARY(silu, Silu, a / (1.f + expf(-a)))
ORK_FUSE_UNARY(gelu, Gelu, 0.5f * a * (1.f + tanhf(0.7978845608f * (a + 0.044715f * a * a * a))))
#undef ORK_FUSE_UNARY

/// n elements and their stores.
template <class... S>
struct Problem {
  int64_t n;
  std::tuple<S...> stores;
  bool wide;  // whether 16-byte accesses are possible
  static constexpr int kLanes = [] { int most = 1; ((most = S::kWidest > most ? S::kWidest : most), ...); return most; }();
  int64_t blocks() const { return (n + int64_t(kThreads) * kLanes - 1) / (int64_t(kThreads) * kLanes); }
};
namespace detail {
template <class... S>
Problem<S...> problem_of(int64_t n, S... stores) {
  return {n, std::tuple<S...>(stores...), (stores.aligned() && ...)};
}
}  // namespace detail

/// A problem of `many`, which has no rows.
template <class... S>
Problem<S...> problem(int64_t n, S... stores) {
  static_assert(!(S::kOfRows || ...), "row_sum, row_max, per_row and per_col need rows()");
  return detail::problem_of(n, stores...);
}

namespace detail {

template <int V, class... S, size_t... I>
__device__ __forceinline__ void run_stores(const std::tuple<S...>& stores, const Context& c, int64_t i, std::index_sequence<I...>) {
  (std::get<I>(stores).template run<V>(c, i), ...);
}

/// Block `block` of a problem.
template <class... S>
__device__ __forceinline__ void run_block(const Problem<S...>& p, int64_t block) {
  constexpr int kLanes = Problem<S...>::kLanes;
  const Context c;
  const int64_t first = block * kThreads * kLanes, at = first + threadIdx.x * kLanes;
  if (p.wide && first + kThreads * kLanes <= p.n) {
    run_stores<kLanes>(p.stores, c, at, std::index_sequence_for<S...>{});
    return;
  }
  for (int64_t i = first + threadIdx.x; i < p.n && i < first + kThreads * kLanes; i += kThreads)
    run_stores<1>(p.stores, c, i, std::index_sequence_for<S...>{});
}

template <size_t I, class... P>
__device__ __forceinline__ void run_problem(const std::tuple<P...>& all, int64_t block, const int64_t* first) {
  if constexpr (I + 1 < sizeof...(P)) {
    if (block >= first[I + 1]) {
      run_problem<I + 1>(all, block, first);
      return;
    }
  }
  run_block(std::get<I>(all), block - first[I]);
}

template <int kCount>
struct Firsts {
  int64_t block[kCount];
};

template <class... P>
__global__ void __launch_bounds__(kThreads) many_kernel(const std::tuple<P...> all, const Firsts<sizeof...(P)> first) {
  run_problem<0>(all, blockIdx.x, first.block);
}

template <bool kWide, class... S>
__global__ void __launch_bounds__(kThreads) rows_kernel(const Problem<S...> p, int64_t cols) {
  __shared__ float scratch[kThreads / 32];
  constexpr int kLanes = kWide ? Problem<S...>::kLanes : 1;
  Context c;
  c.row = blockIdx.x, c.cols = cols, c.scratch = scratch;
  std::apply([&](const auto&... s) { (s.prepare(c), ...); }, p.stores);
  for (int64_t i = threadIdx.x * kLanes; i < cols; i += kThreads * kLanes)
    run_stores<kLanes>(p.stores, c, c.row * cols + i, std::index_sequence_for<S...>{});
}

}  // namespace detail

namespace detail {

constexpr int64_t kMostElements = int64_t(1) << 43;  // of an array: beyond any memory

/// Adds what a problem names; a matrix has `count` rows.
template <class... S>
void list_problem(const Problem<S...>& p, int64_t count, int64_t cols, int number, std::vector<Array>& to) {
  const size_t first = to.size();
  std::apply([&](const auto&... s) { (s.list(to), ...); }, p.stores);
  for (size_t i = first; i < to.size(); i++) {
    Array& a = to[i];
    a.count = a.kind == Kind::kPerRow ? count : a.kind == Kind::kPerCol ? cols : p.n;
    a.problem = number;
  }
}
inline Result refused(const char* argument) { return {argument, cudaErrorInvalidValue}; }

}  // namespace detail

/// Runs small problems side by side in one launch.
template <class... P>
Result many(cudaStream_t stream, P... problems) {
  if (((problems.n < 0 || problems.n > detail::kMostElements) || ...)) return detail::refused("n");
  std::vector<detail::Array> arrays;
  int number = 0;
  (detail::list_problem(problems, 0, 0, number++, arrays), ...);
  if (const char* name = detail::fault_of(arrays)) return detail::refused(name);
  detail::Firsts<sizeof...(P)> first;
  int64_t blocks = 0;
  int at = 0;
  ((first.block[at++] = blocks, blocks += problems.blocks()), ...);
  if (blocks == 0) return {};
  if (blocks > 0x7fffffff) return detail::refused("n");
  detail::many_kernel<<<unsigned(blocks), kThreads, 0, stream>>>(std::tuple<P...>(problems...), first);
  return {nullptr, cudaGetLastError()};
}

/// Runs the stores for every index in [0, n): what one store writes, another of the same call must not read.
template <class... S>
Result map(cudaStream_t stream, int64_t n, S... stores) {
  return many(stream, problem(n, stores...));
}

/// Runs the stores for every element of a count x cols matrix, with reductions over rows.
template <class... S>
Result rows(cudaStream_t stream, int64_t count, int64_t cols, S... stores) {
  if (count < 0 || count > 0x7fffffff) return detail::refused("count");
  if (cols < 0 || (count > 0 && cols > detail::kMostElements / count)) return detail::refused("cols");
  if (count == 0 || cols == 0) return {};
  const auto p = detail::problem_of(count * cols, stores...);
  std::vector<detail::Array> arrays;
  detail::list_problem(p, count, cols, 0, arrays);
  if (const char* name = detail::fault_of(arrays)) return detail::refused(name);
  if (p.wide && cols % p.kLanes == 0) detail::rows_kernel<true><<<unsigned(count), kThreads, 0, stream>>>(p, cols);
  else detail::rows_kernel<false><<<unsigned(count), kThreads, 0, stream>>>(p, cols);
  return {nullptr, cudaGetLastError()};
}

}  // namespace orrery::fuse
