// What every public function refuses, and that it refuses before it launches anything: each pointer null, misaligned and, where it is written, on top
// of or partly over each other argument; each size negative and too large; each stride too large. One case a function, told as a table, from which
// the faults are made one at a time; the call without a fault must succeed. Not here: what is particular to a function (types, configurations,
// combinations of masks), which its own test has.
#include <functional>
#include <initializer_list>
#include <memory>

#include "check.h"
#include "orrery/fuse.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

constexpr int64_t kHuge = int64_t(1) << 61, kMost = INT64_MAX;

/// A pointer of a call: what sets it, how it must lie, how many bytes the call takes it to have. Names may differ from that of the argument where a
/// fault of one is found to be another's, which is then named here.
struct Pointer {
  const char* name;
  std::function<void(void*)> set;
  int align;
  int64_t bytes;
  enum { kRead = 0, kWritten = 1, kMayBeNull = 2, kInPlace = 4, kWorkspace = 8 } kind;  // kInPlace: read, and an output may be the very same
  std::shared_ptr<Buffer> buffer = nullptr;
  bool is(int k) const { return int(kind) & k; }
};
constexpr auto R = Pointer::kRead, W = Pointer::kWritten, N = Pointer::kMayBeNull, I = Pointer::kInPlace;
constexpr auto WN = decltype(R)(W | N), IN = decltype(R)(I | N), WS = decltype(R)(W | Pointer::kWorkspace);

struct Size {
  const char* name;
  std::function<void(int64_t)> set;
  int64_t good;
  std::vector<int64_t> bad;
  const char* also = nullptr;  // another name that a fault may have, as with a product of two sizes
};

int faults = 0;

/// argument, or null: what the call named. ok: whether it succeeded.
struct Said {
  const char* argument;
  bool ok;
};
Said said(const Status& s) { return {s.argument, s.ok()}; }
Said said(const orrery::fuse::Result& s) { return {s.argument, s.ok()}; }

void contract(const char* name, const std::function<Said()>& call, std::vector<Pointer> pointers, const std::vector<Size>& sizes) {
  for (Pointer& p : pointers) {
    p.buffer = std::make_shared<Buffer>(std::vector<unsigned char>(size_t(p.bytes + 8192), 0));  // zeros: workspaces, indices, lengths
    p.set(p.buffer->data());
  }
  for (const Size& s : sizes) s.set(s.good);
  if (const Said s = call(); !s.ok) check::fail("%s refuses %s of a call without a fault", name, s.argument ? s.argument : "something");
  CUDA_OK(cudaDeviceSynchronize());
  for (Pointer& p : pointers)
    if (p.is(W)) p.buffer->poison();
  const auto refused = [&](const std::string& fault, std::initializer_list<const char*> names) {
    const Said s = call();
    bool right = false;
    for (const char* n : names) right = right || (n && s.argument && !std::strcmp(n, s.argument));
    if (s.ok || !right) check::fail("%s: %s: named %s", name, fault.c_str(), s.ok ? "no fault" : s.argument ? s.argument : "nothing");
    faults++;
  };
  for (Pointer& p : pointers) {
    if (!p.is(N)) p.set(nullptr), refused(std::string(p.name) + " is null", {p.name});
    for (int off = 1; off < p.align; off *= 2) p.set(p.buffer->data() + off), refused(std::string(p.name) + " is misaligned by " + std::to_string(off), {p.name});
    p.set(p.buffer->data());
  }
  for (Pointer& w : pointers) {
    if (!w.is(W)) continue;
    for (Pointer& o : pointers) {
      if (&o == &w) continue;
      if (!o.is(I) || w.is(Pointer::kWorkspace)) w.set(o.buffer->data()), refused(std::string(w.name) + " is " + o.name, {w.name, o.name});
      const int step = std::max(w.align, 16);
      if (o.bytes > step) w.set(o.buffer->data() + step), refused(std::string(w.name) + " begins inside " + o.name, {w.name, o.name});
      if (w.bytes > step) w.set(o.buffer->data() - step), refused(std::string(w.name) + " ends inside " + o.name, {w.name, o.name});
    }
    w.set(w.buffer->data());
  }
  for (const Size& s : sizes) {
    for (int64_t v : s.bad) s.set(v), refused(std::string(s.name) + " is " + std::to_string(v), {s.name, s.also});
    s.set(s.good);
  }
  CUDA_OK(cudaDeviceSynchronize());
  for (const Pointer& p : pointers) {
    if (!p.is(W)) continue;
    for (unsigned char c : p.buffer->host<unsigned char>())
      if (c != 0xFF) check::fail("%s: a call that was refused has written %s", name, p.name);
  }
}

/// Setters of a variable or a field; the type of a pointer is that of the field.
#define SET(x) [&](void* p_) { x = static_cast<std::remove_reference_t<decltype(x)>>(p_); }
#define NUM(x) [&](int64_t v_) { x = std::remove_reference_t<decltype(x)>(v_); }
#define CALL(...) [&] { return said(__VA_ARGS__); }

void memory_bound() {
  {
    float *a, *b, *c;
    int64_t n;
    const Size size{"n", NUM(n), 1000, {-1, kHuge, kMost}};
    contract("stream_copy", CALL(stream_copy(c, a, n, nullptr)), {{"c", SET(c), 4, 4000, W}, {"a", SET(a), 4, 4000, I}}, {size});
    contract("stream_scale", CALL(stream_scale(b, c, 2, n, nullptr)), {{"b", SET(b), 4, 4000, W}, {"c", SET(c), 4, 4000, I}}, {size});
    contract("stream_add", CALL(stream_add(c, a, b, n, nullptr)), {{"c", SET(c), 4, 4000, W}, {"a", SET(a), 4, 4000, I}, {"b", SET(b), 4, 4000, I}}, {size});
    contract("stream_triad", CALL(stream_triad(a, b, c, 2, n, nullptr)), {{"a", SET(a), 4, 4000, W}, {"b", SET(b), 4, 4000, I}, {"c", SET(c), 4, 4000, I}}, {size});
    void* workspace;
    const std::vector<Pointer> whole = {{"out", SET(b), 4, 4, W}, {"in", SET(a), 4, 4000, R}, {"workspace", SET(workspace), 4, int64_t(reduce_workspace()), WS}};
    contract("reduce_sum", CALL(reduce_sum(b, a, n, workspace, nullptr)), whole, {size});
    contract("reduce_max", CALL(reduce_max(b, a, n, workspace, nullptr)), whole, {size});
    contract("reduce_min", CALL(reduce_min(b, a, n, workspace, nullptr)), whole, {size});
  }
  {
    uint32_t *out, *in;
    uint8_t* bytes;
    void* workspace;
    int64_t n;
    contract("histogram_u8", CALL(histogram_u8(out, bytes, n, nullptr)), {{"counts", SET(out), 4, 1024, W}, {"in", SET(bytes), 1, 1000, R}}, {{"n", NUM(n), 1000, {-1, kHuge, kMost}}});
    contract("inclusive_scan", CALL(inclusive_scan(out, in, n, workspace, nullptr)),
             {{"out", SET(out), 4, 4000, W}, {"in", SET(in), 4, 4000, I}, {"workspace", SET(workspace), 8, int64_t(scan_workspace(1000)), WS}}, {{"n", NUM(n), 1000, {-1, kHuge, kMost}}});
    uint32_t *values_out, *values;
    contract("sort_u32", CALL(sort_u32(out, values_out, in, values, n, workspace, nullptr)),
             {{"keys_out", SET(out), 4, 4000, W}, {"keys", SET(in), 4, 4000, R}, {"values_out", SET(values_out), 4, 4000, W}, {"values", SET(values), 4, 4000, decltype(R)(R)},
              {"workspace", SET(workspace), 256, int64_t(sort_workspace(1000)), WS}}, {{"n", NUM(n), 1000, {-1, kHuge, kMost}}});
  }
  {
    void *out, *sum, *in, *residual, *gamma, *beta;
    int64_t rows, cols, pitch;
    const auto B = DType::kBF16;
    const std::vector<Size> sizes = {{"rows", NUM(rows), 5, {-1, kHuge, kMost}}, {"cols", NUM(cols), 96, {-1, kHuge, kMost, 70000}, "pitch"}, {"pitch", NUM(pitch), 104, {-1, 95, kHuge, kMost}}};
    const int64_t bytes = (4 * 104 + 96) * 2;
    contract("softmax", CALL(softmax(out, in, B, rows, cols, pitch, nullptr)), {{"out", SET(out), 2, bytes, W}, {"in", SET(in), 2, bytes, I}}, sizes);
    contract("layernorm", CALL(layernorm(out, sum, in, residual, gamma, beta, 1e-5f, B, rows, cols, pitch, nullptr)),
             {{"out", SET(out), 2, bytes, W}, {"sum_out", SET(sum), 2, bytes, WN}, {"in", SET(in), 2, bytes, I}, {"residual", SET(residual), 2, bytes, decltype(R)(I | N)}, {"gamma", SET(gamma), 2, 192, N}, {"beta", SET(beta), 2, 192, N}},
             sizes);
    contract("rmsnorm", CALL(rmsnorm(out, sum, in, residual, gamma, 1e-5f, B, rows, cols, pitch, nullptr)),
             {{"out", SET(out), 2, bytes, W}, {"sum_out", SET(sum), 2, bytes, WN}, {"in", SET(in), 2, bytes, I}, {"residual", SET(residual), 2, bytes, IN}, {"gamma", SET(gamma), 2, 192, N}}, sizes);
    for (float eps : {-1.f, NAN, INFINITY}) NAMES(rmsnorm(out, nullptr, in, nullptr, nullptr, eps, B, 5, 96, 104, nullptr), "eps");
    int32_t* indices;
    int64_t k;
    contract("top_k", CALL(top_k(out, indices, in, B, rows, cols, pitch, k, nullptr)), {{"values", SET(out), 2, 5 * 7 * 2, WN}, {"indices", SET(indices), 4, 5 * 7 * 4, WN}, {"in", SET(in), 2, bytes, R}},
             {{"rows", NUM(rows), 5, {-1, kHuge, kMost}}, {"cols", NUM(cols), 96, {-1, 6, kHuge, kMost}, "k"}, {"pitch", NUM(pitch), 104, {-1, 95, kHuge, kMost}}, {"k", NUM(k), 7, {-1, 97, kMost}}});
  }
  {
    void* x;
    float *cosines, *sines;
    int64_t tokens, heads, dim;
    contract("rotary", CALL(rotary(x, cosines, sines, DType::kF16, tokens, heads, dim, nullptr)),
             {{"x", SET(x), 2, 3 * 2 * 64 * 2, W}, {"cosines", SET(cosines), 4, 3 * 32 * 4, R}, {"sines", SET(sines), 4, 3 * 32 * 4, R}},
             {{"tokens", NUM(tokens), 3, {-1, kHuge, kMost}}, {"heads", NUM(heads), 2, {-1, kHuge, kMost}}, {"dim", NUM(dim), 64, {-2, 63, kHuge, kMost}}});
  }
  {
    void *out, *in;
    float* scales;
    void* narrow_scales;
    int64_t rows, cols;
    const std::vector<Size> fewer = {{"rows", NUM(rows), 3, {-1, kHuge, kMost, int64_t(1) << 32}}, {"cols", NUM(cols), 256, {-1, kHuge, kMost}}};
    contract("quantize_e4m3", CALL(quantize_e4m3(out, scales, in, DType::kBF16, rows, cols, nullptr)), {{"out", SET(out), 1, 768, W}, {"scales", SET(scales), 4, 24, W}, {"in", SET(in), 2, 1536, R}}, fewer);
    contract("dequantize_e4m3", CALL(dequantize_e4m3(out, in, scales, DType::kBF16, rows, cols, nullptr)), {{"out", SET(out), 2, 1536, W}, {"scales", SET(scales), 4, 24, R}, {"in", SET(in), 1, 768, R}}, fewer);
    const std::vector<Size> few = {{"rows", NUM(rows), 3, {-1, kHuge, kMost, int64_t(1) << 31}}, {"cols", NUM(cols), 256, {-1, 200, kHuge, kMost}}};
    contract("quantize_int4", CALL(quantize_int4(out, narrow_scales, in, DType::kBF16, rows, cols, nullptr)), {{"out", SET(out), 4, 384, W}, {"scales", SET(narrow_scales), 2, 12, W}, {"in", SET(in), 16, 1536, R}}, few);
    contract("dequantize_int4", CALL(dequantize_int4(out, in, narrow_scales, DType::kBF16, rows, cols, nullptr)), {{"out", SET(out), 16, 1536, W}, {"scales", SET(narrow_scales), 2, 12, R}, {"in", SET(in), 4, 384, R}}, few);
    void* codes;
    int64_t pitch;
    contract("sparsify", CALL(sparsify(out, codes, in, DType::kBF16, rows, cols, pitch, nullptr)),
             {{"values", SET(out), 16, 3 * 256, W}, {"codes", SET(codes), 16, int64_t(sparse_codes_bytes(3, 256)), W}, {"in", SET(in), 16, (2 * 264 + 256) * 2, R}},
             {{"rows", NUM(rows), 3, {-1, kHuge, kMost}}, {"cols", NUM(cols), 256, {-1, 200, kHuge, kMost}}, {"pitch", NUM(pitch), 264, {-1, 255, 260, kHuge, kMost}}});
  }
  {
    void *out, *in;
    int64_t rows, cols, in_pitch, out_pitch;
    contract("transpose", CALL(transpose(out, in, 4, rows, cols, in_pitch, out_pitch, nullptr)), {{"out", SET(out), 4, (19 * 15 + 10) * 4, W}, {"in", SET(in), 4, (9 * 24 + 20) * 4, R}},
             {{"rows", NUM(rows), 10, {-1, kHuge, kMost}, "out_pitch"}, {"cols", NUM(cols), 20, {-1, kHuge, kMost}, "rows"}, {"in_pitch", NUM(in_pitch), 24, {-1, 19, kHuge, kMost}}, {"out_pitch", NUM(out_pitch), 15, {-1, 9, kHuge, kMost}}});
    int32_t* indices;
    int64_t count, table_rows, row_bytes;
    const std::vector<Size> sizes = {{"count", NUM(count), 7, {-1, kHuge, kMost}}, {"table_rows", NUM(table_rows), 9, {-1, kHuge, kMost}}, {"row_bytes", NUM(row_bytes), 64, {-1, kHuge, kMost}}};
    contract("gather_rows", CALL(gather_rows(out, in, indices, count, table_rows, row_bytes, nullptr)), {{"out", SET(out), 1, 448, W}, {"table", SET(in), 1, 576, R}, {"indices", SET(indices), 4, 28, R}}, sizes);
    contract("scatter_rows", CALL(scatter_rows(out, in, indices, count, table_rows, row_bytes, nullptr)), {{"table", SET(out), 1, 576, W}, {"in", SET(in), 1, 448, R}, {"indices", SET(indices), 4, 28, R}}, sizes);
    StridedLayout l{2, 4, {7, 5}, {40, 8}};
    const std::vector<Size> layouts = {{"layout.rank", NUM(l.rank), 2, {-1, 6}}, {"layout.element_bytes", NUM(l.element_bytes), 4, {-1, 0, kHuge, kMost}},
                                       {"layout.count", NUM(l.count[0]), 7, {-1, kHuge, kMost}}, {"layout.count", NUM(l.count[1]), 5, {-1, kHuge, kMost}}, {"layout.stride", NUM(l.stride[0]), 40, {-1, kHuge, kMost}}};
    contract("pack", CALL(pack(out, in, l, nullptr)), {{"out", SET(out), 1, 140, W}, {"in", SET(in), 1, 6 * 40 + 4 * 8 + 4, R}}, layouts);
    contract("unpack", CALL(unpack(out, in, l, nullptr)), {{"out", SET(out), 1, 6 * 40 + 4 * 8 + 4, W}, {"in", SET(in), 1, 140, R}}, layouts);
  }
}

void products() {
  const std::vector<int64_t> bad = {-1, kHuge, kMost};
  const auto B = DType::kBF16;
  {
    GemmArgs g;
    g.beta = 1;
    const auto pointers = [&](int unit) {
      return std::vector<Pointer>{{"d.data", SET(g.d.data), 2, (15 * 40 + 24) * 2, W}, {"a.data", SET(g.a.data), unit, (15 * 64 + 64) * unit, R}, {"b.data", SET(g.b.data), unit, (23 * 64 + 64) * unit, R},
                                  {"c.data", SET(g.c.data), 2, (15 * 40 + 24) * 2, I}, {"scale_a", SET(g.scale_a), 4, 4, N}, {"scale_b", SET(g.scale_b), 4, 4, N}, {"row_scale", SET(g.row_scale), 4, 64, N},
                                  {"col_scale", SET(g.col_scale), 4, 96, N}, {"row_bias", SET(g.row_bias), 4, 64, N}, {"col_bias", SET(g.col_bias), 4, 96, N}};
    };
    const std::vector<Size> sizes = {{"m", NUM(g.m), 16, bad}, {"n", NUM(g.n), 24, bad}, {"k", NUM(g.k), 64, bad}, {"a strides", NUM(g.a.row_stride), 64, bad}, {"b strides", NUM(g.b.col_stride), 64, bad},
                                     {"c strides", NUM(g.c.row_stride), 40, bad}, {"d strides", NUM(g.d.row_stride), 40, {-1, 23, kHuge, kMost}}, {"activation", NUM(g.activation), 0, {4, 255}},
                                     {"a.dtype", NUM(g.a.dtype), int64_t(DType::kBF16), {200}}, {"d.dtype", NUM(g.d.dtype), int64_t(DType::kBF16), {200}}};
    contract("gemm", CALL(gemm(g, nullptr)), pointers(2), sizes);
    auto with_workspace = pointers(2);
    with_workspace.push_back({"workspace", SET(g.workspace), 256, int64_t(gemm_workspace()), decltype(R)(WS | N)});
    g.workspace_bytes = 0;
    contract("gemm without the bytes of a workspace", CALL(gemm(g, nullptr)), pointers(2), {});
    g.workspace_bytes = gemm_workspace();
    contract("gemm with a workspace", CALL(gemm(g, nullptr)), [&] {
      with_workspace.back().kind = WS;
      return with_workspace;
    }(), {});
    g.workspace = nullptr, g.workspace_bytes = 0;
    auto blocks = pointers(1);
    blocks.push_back({"block_scale_a", SET(g.block_scale_a), 4, 64, R}), blocks.push_back({"block_scale_b", SET(g.block_scale_b), 4, 4, R});
    g.a.dtype = g.b.dtype = DType::kE4M3;
    contract("gemm with block scales", CALL(gemm(g, nullptr)), blocks, {});
  }
  {
    GroupedGemmArgs g;
    g.a.dtype = g.d.dtype = B;
    contract("gemm_grouped", CALL(gemm_grouped(g, nullptr)),
             {{"d.data", SET(g.d.data), 2, (9 * 40 + 24) * 2, W}, {"a.data", SET(g.a.data), 16, 10 * 64 * 2, R}, {"b", SET(g.b), 16, 3 * 24 * 64 * 2, R}, {"group_ends", SET(g.group_ends), 4, 12, R},
              {"scale_a", SET(g.scale_a), 4, 4, N}, {"scale_b", SET(g.scale_b), 4, 4, N}, {"row_scale", SET(g.row_scale), 4, 40, N}},
             {{"rows", NUM(g.rows), 10, bad}, {"n", NUM(g.n), 24, bad, "groups"}, {"k", NUM(g.k), 64, {-1, 0, kHuge, kMost}}, {"groups", NUM(g.groups), 3, {-1, 0x7fffffff}}, {"a strides", NUM(g.a.row_stride), 64, {-1, 56, 68, kHuge, kMost}},
              {"b_stride", NUM(g.b_stride), 64, {-1, 56, 68, kHuge, kMost}}, {"d strides", NUM(g.d.row_stride), 40, {-1, 23, kHuge, kMost}}, {"activation", NUM(g.activation), 0, {4}}});
  }
  {
    SparseGemmArgs g;
    g.a.dtype = g.d.dtype = B;
    contract("gemm_sparse", CALL(gemm_sparse(g, nullptr)),
             {{"d.data", SET(g.d.data), 16, (9 * 40 + 24) * 2, W}, {"a.data", SET(g.a.data), 16, 10 * 64 * 2, R}, {"values", SET(g.values), 16, 24 * 64, R}, {"codes", SET(g.codes), 16, int64_t(sparse_codes_bytes(24, 64)), R},
              {"col_bias", SET(g.col_bias), 4, 96, N}},
             {{"m", NUM(g.m), 10, bad}, {"n", NUM(g.n), 24, bad}, {"k", NUM(g.k), 64, {-1, 0, 24, kHuge, kMost}}, {"a strides", NUM(g.a.row_stride), 64, {-1, 56, 68, kHuge, kMost}},
              {"d strides", NUM(g.d.row_stride), 40, {-1, 23, kHuge, kMost}}, {"activation", NUM(g.activation), 0, {4}}});
  }
  {
    WeightOnlyArgs g;
    g.a.dtype = g.d.dtype = DType::kF16;
    contract("gemm_weight_only", CALL(gemm_weight_only(g, nullptr)),
             {{"d.data", SET(g.d.data), 2, (4 * 40 + 24) * 2, W}, {"a.data", SET(g.a.data), 16, 5 * 128 * 2, R}, {"weights", SET(g.weights), 16, 24 * 64, R}, {"scales", SET(g.scales), 2, 48, R},
              {"scale_a", SET(g.scale_a), 4, 4, N}, {"col_scale", SET(g.col_scale), 4, 96, N}, {"col_bias", SET(g.col_bias), 4, 96, N}},
             {{"m", NUM(g.m), 5, bad}, {"n", NUM(g.n), 24, bad}, {"k", NUM(g.k), 128, {-1, 0, 100, kHuge, kMost}}, {"a strides", NUM(g.a.row_stride), 128, {-1, 120, 132, kHuge, kMost}},
              {"weight_pitch", NUM(g.weight_pitch), 64, {-1, 48, 72, kHuge, kMost}}, {"d strides", NUM(g.d.row_stride), 40, {-1, 23, kHuge, kMost}}, {"activation", NUM(g.activation), 0, {4}}, {"format", NUM(g.format), 0, {2}}});
    g.format = WeightFormat::kE4M3;
    std::vector<Pointer> operands = {{"d.data", SET(g.d.data), 2, (39 * 40 + 24) * 2, W}, {"a.data", SET(g.a.data), 16, 40 * 104 * 2, R}, {"weights", SET(g.weights), 16, 24 * 112, R},
                                     {"scale_a", SET(g.scale_a), 4, 4, N}, {"col_scale", SET(g.col_scale), 4, 96, N}, {"col_bias", SET(g.col_bias), 4, 96, N}};
    contract("gemm_weight_only of e4m3", CALL(gemm_weight_only(g, nullptr)), operands,
             {{"m", NUM(g.m), 40, bad}, {"n", NUM(g.n), 24, bad}, {"k", NUM(g.k), 100, {-1, 0, kHuge, kMost}}, {"a strides", NUM(g.a.row_stride), 104, {-1, 96, 100, kHuge, kMost}},
              {"weight_pitch", NUM(g.weight_pitch), 112, {-1, 96, 104, kHuge, kMost}}, {"d strides", NUM(g.d.row_stride), 40, {-1, 23, kHuge, kMost}}, {"activation", NUM(g.activation), 0, {4}}});
    operands.push_back({"workspace", SET(g.workspace), 256, int64_t(gemm_workspace()), WS});
    g.workspace_bytes = gemm_workspace();
    contract("gemm_weight_only with a workspace", CALL(gemm_weight_only(g, nullptr)), operands, {});
  }
}

void attention() {
  const std::vector<int64_t> bad = {-1, kHuge, kMost}, strides = {-8, 32, 132, kHuge, kMost};
  constexpr int64_t kToken = 2 * 64, kBytes = 2 * 16 * kToken * 2;  // two heads of 64, two sequences of 16
  const auto set_strides = [](AttentionArgs::Strides& s) { s = {16 * kToken, kToken, 64}; };
  {
    AttentionArgs a;
    for (auto* s : {&a.q_strides, &a.k_strides, &a.v_strides, &a.out_strides}) set_strides(*s);
    const std::vector<Size> sizes = {{"batch", NUM(a.batch), 2, bad}, {"heads", NUM(a.heads), 2, bad, "kv_heads"}, {"kv_heads", NUM(a.kv_heads), 2, {-1, 0, 3, kHuge}}, {"seq_q", NUM(a.seq_q), 16, bad}, {"seq_k", NUM(a.seq_k), 16, {-1, 0, kHuge}},
                                     {"dim", NUM(a.dim), 64, {-1, 0, 80, kHuge}}, {"window", NUM(a.window), 0, {-1, 5}}, {"q_strides", NUM(a.q_strides.seq), kToken, strides}, {"k_strides", NUM(a.k_strides.head), 64, strides},
                                     {"v_strides", NUM(a.v_strides.batch), 16 * kToken, strides}, {"out_strides", NUM(a.out_strides.seq), kToken, strides}};
    contract("attention_forward", CALL(attention_forward(a, nullptr)),
             {{"out", SET(a.out), 16, kBytes, W}, {"lse", SET(a.lse), 4, 2 * 2 * 16 * 4, WN}, {"q", SET(a.q), 16, kBytes, R}, {"k", SET(a.k), 16, kBytes, R}, {"v", SET(a.v), 16, kBytes, R}}, sizes);
    a.q_rows = a.k_rows = 32;
    contract("attention_forward of sequences of their own lengths", CALL(attention_forward(a, nullptr)),
             {{"out", SET(a.out), 16, kBytes, W}, {"lse", SET(a.lse), 4, 2 * 32 * 4, WN}, {"q", SET(a.q), 16, kBytes, R}, {"k", SET(a.k), 16, kBytes, R}, {"v", SET(a.v), 16, kBytes, R},
              {"q_starts", SET(a.q_starts), 4, 12, R}, {"k_starts", SET(a.k_starts), 4, 12, R}},
             {{"q_rows", NUM(a.q_rows), 32, bad}, {"k_rows", NUM(a.k_rows), 32, {-1, 0, kHuge}}});
    a.q_starts = a.k_starts = nullptr, a.q_rows = a.k_rows = 0, a.dtype = DType::kE4M3;
    contract("attention_forward of e4m3", CALL(attention_forward(a, nullptr)),
             {{"out", SET(a.out), 16, kBytes, W}, {"lse", SET(a.lse), 4, 2 * 2 * 16 * 4, WN}, {"q", SET(a.q), 16, kBytes / 2, R}, {"k", SET(a.k), 16, kBytes / 2, R}, {"v", SET(a.v), 16, kBytes / 2, R},
              {"scale_q", SET(a.scale_q), 4, 4, N}, {"scale_k", SET(a.scale_k), 4, 4, N}, {"scale_v", SET(a.scale_v), 4, 4, N}, {"workspace", SET(a.workspace), 256, int64_t(attention_workspace(a)), WS}}, {});
  }
  {
    AttentionBackwardArgs a;
    for (auto* s : {&a.q_strides, &a.k_strides, &a.v_strides, &a.out_strides, &a.d_out_strides, &a.dq_strides, &a.dk_strides, &a.dv_strides}) set_strides(*s);
    a.batch = a.heads = a.kv_heads = 2, a.seq_q = a.seq_k = 16, a.dim = 64;
    const int64_t workspace = int64_t(attention_backward_workspace(a));
    contract("attention_backward", CALL(attention_backward(a, nullptr)),
             {{"dq", SET(a.dq), 16, kBytes, W}, {"dk", SET(a.dk), 16, kBytes, W}, {"dv", SET(a.dv), 16, kBytes, W}, {"q", SET(a.q), 16, kBytes, R}, {"k", SET(a.k), 16, kBytes, R}, {"v", SET(a.v), 16, kBytes, R},
              {"out", SET(a.out), 16, kBytes, R}, {"d_out", SET(a.d_out), 16, kBytes, R}, {"lse", SET(a.lse), 4, 256, R}, {"workspace", SET(a.workspace), 256, workspace, WS}},
             {{"batch", NUM(a.batch), 2, {-1, 0, kHuge}}, {"heads", NUM(a.heads), 2, {-1, 0, 3, kHuge}, "kv_heads"}, {"kv_heads", NUM(a.kv_heads), 2, {-1, 0, 3, kHuge}}, {"seq_q", NUM(a.seq_q), 16, {-1, 0, kHuge}}, {"seq_k", NUM(a.seq_k), 16, {-1, 0, kHuge}},
              {"dim", NUM(a.dim), 64, {-1, 80, kHuge}}, {"q_strides", NUM(a.q_strides.seq), kToken, strides}, {"k_strides", NUM(a.k_strides.seq), kToken, strides}, {"v_strides", NUM(a.v_strides.seq), kToken, strides},
              {"out_strides", NUM(a.out_strides.seq), kToken, strides}, {"d_out_strides", NUM(a.d_out_strides.seq), kToken, strides}, {"dq_strides", NUM(a.dq_strides.seq), kToken, strides},
              {"dk_strides", NUM(a.dk_strides.seq), kToken, strides}, {"dv_strides", NUM(a.dv_strides.seq), kToken, strides}});
  }
  {
    KvVoteArgs a;
    set_strides(a.q_strides), set_strides(a.k_strides);
    a.batch = a.heads = a.kv_heads = 2, a.seq_q = a.seq_k = 16, a.dim = 64, a.window = 8, a.pool = 3;
    contract("kv_votes", CALL(kv_votes(a, nullptr)),
             {{"votes", SET(a.votes), 4, 256, W}, {"q", SET(a.q), 16, kBytes, R}, {"k", SET(a.k), 16, kBytes, R}, {"lse", SET(a.lse), 4, 256, R}, {"workspace", SET(a.workspace), 4, int64_t(kv_votes_workspace(a)), WS}},
             {{"batch", NUM(a.batch), 2, {-1, 0, kHuge}}, {"heads", NUM(a.heads), 2, {-1, 0, 3, kHuge}, "kv_heads"}, {"kv_heads", NUM(a.kv_heads), 2, {-1, 0, 3, kHuge}}, {"seq_q", NUM(a.seq_q), 16, {-1, 0, kHuge}}, {"seq_k", NUM(a.seq_k), 16, {-1, 0, kHuge}},
              {"dim", NUM(a.dim), 64, {-1, 80, kHuge}}, {"window", NUM(a.window), 8, {-1, 0, 17, kHuge}}, {"pool", NUM(a.pool), 3, {-1, 0, 2, 1025, kHuge}}, {"q_strides", NUM(a.q_strides.seq), kToken, strides}, {"k_strides", NUM(a.k_strides.seq), kToken, strides}});
  }
  {
    PagedAttentionArgs a;
    a.batch = a.heads = a.kv_heads = 2, a.dim = 64, a.pages = 4, a.page_size = 16, a.table_pitch = 2, a.max_seq = 32, a.splits = 2;
    const int64_t cache = 4 * 16 * kToken * 2, workspace = int64_t(attention_paged_workspace(a));
    contract("attention_paged", CALL(attention_paged(a, nullptr)),
             {{"out", SET(a.out), 2, 2 * kToken * 2, W}, {"lse", SET(a.lse), 4, 16, WN}, {"q", SET(a.q), 16, 2 * kToken * 2, R}, {"k_cache", SET(a.k_cache), 16, cache, R}, {"v_cache", SET(a.v_cache), 16, cache, R},
              {"page_table", SET(a.page_table), 4, 16, R}, {"seq_lens", SET(a.seq_lens), 4, 8, R}, {"workspace", SET(a.workspace), 16, workspace, WS}},
             {{"batch", NUM(a.batch), 2, bad}, {"heads", NUM(a.heads), 2, {-1, 3, kHuge}, "kv_heads"}, {"kv_heads", NUM(a.kv_heads), 2, {-1, 0, 3, kHuge}}, {"dim", NUM(a.dim), 64, {-1, 80, kHuge}}, {"pages", NUM(a.pages), 4, bad},
              {"page_size", NUM(a.page_size), 16, {-16, 0, 8, 24, kHuge}}, {"table_pitch", NUM(a.table_pitch), 2, {-1, 1, kHuge, kMost}}, {"max_seq", NUM(a.max_seq), 32, {-1, kHuge}}, {"q_stride", NUM(a.q_stride), kToken, strides},
              {"out_stride", NUM(a.out_stride), kToken, {-8, 32, kHuge, kMost}}, {"page_stride", NUM(a.page_stride), 16 * kToken, {-8, 4, kHuge, kMost}}, {"token_stride", NUM(a.token_stride), kToken, {-8, 32, 68, kHuge, kMost}},
              {"head_stride", NUM(a.head_stride), 64, {-8, 4, kHuge, kMost}}, {"window", NUM(a.window), 0, {-1}}, {"splits", NUM(a.splits), 2, {-1, 129}}});
    a.e4m3_cache = true;
    contract("attention_paged, cache of e4m3", CALL(attention_paged(a, nullptr)),
             {{"out", SET(a.out), 2, 2 * kToken * 2, W}, {"lse", SET(a.lse), 4, 16, WN}, {"q", SET(a.q), 16, 2 * kToken * 2, R}, {"k_cache", SET(a.k_cache), 16, cache / 2, R}, {"v_cache", SET(a.v_cache), 16, cache / 2, R},
              {"page_table", SET(a.page_table), 4, 16, R}, {"seq_lens", SET(a.seq_lens), 4, 8, R}, {"scale_k", SET(a.scale_k), 4, 4, N}, {"scale_v", SET(a.scale_v), 4, 4, N}, {"workspace", SET(a.workspace), 16, workspace, WS}}, {});
  }
}

/// Outputs beside inputs in one tensor are fine where no byte is both.
void interleaved() {
  Buffer x(1 << 16);
  CUDA_OK(cudaMemset(x.data(), 0, x.bytes()));
  AttentionArgs a;  // q, k, v and out of a token follow each other
  a.batch = 2, a.heads = a.kv_heads = 2, a.seq_q = a.seq_k = 16, a.dim = 64;
  char* const at = x.data();
  a.q = at, a.k = at + 256, a.v = at + 512, a.out = at + 768;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {16 * 512, 512, 64};
  STATUS_OK(attention_forward(a, nullptr));
  a.out = at + 640;
  NAMES(attention_forward(a, nullptr), "out");
  a.out = at + 256 * 1024;  // heads outside of tokens, three of every four planes of a batch read
  GemmArgs g;  // D are the columns behind A's
  g.m = 16, g.n = 24, g.k = 32;
  g.a = {at, DType::kBF16, 64, 1}, g.b = {at + 32768, DType::kBF16, 1, 32}, g.d = {at + 64, DType::kBF16, 64, 1};
  STATUS_OK(gemm(g, nullptr));
  g.d.data = at + 62;
  NAMES(gemm(g, nullptr), "d.data");
  CUDA_OK(cudaDeviceSynchronize());
}

void fusion() {
  namespace fuse = orrery::fuse;
  float *x, *y;
  __half* z;
  int64_t n, count;
  const Size size{"n", NUM(n), 1000, {-1, -100000, kHuge, kMost}};
  contract("fuse::map", CALL(fuse::map(nullptr, n, fuse::out(y) <<= fuse::in(x) * 2.f, fuse::out(z) <<= fuse::abs(fuse::in(x)))),
           {{"out", SET(y), 4, 4000, W}, {"in", SET(x), 4, 4000, I}, {"out", SET(z), 2, 2000, W}}, {size});
  contract("fuse::many", CALL(fuse::many(nullptr, fuse::problem(n, fuse::out(y) <<= fuse::in(x)), fuse::problem(int64_t(10), fuse::out(z) <<= fuse::in(x)))),
           {{"out", SET(y), 4, 4000, W}, {"out", SET(z), 2, 20, W}, {"in", SET(x), 4, 4000, decltype(R)(I)}}, {size});
  float *scale, *shift;
  const auto softmax = [&] {
    auto v = fuse::in(x) * fuse::per_row(scale) + fuse::per_col(shift);
    auto e = fuse::exp(v - fuse::row_max<0>(v));
    return said(fuse::rows(nullptr, count, n, fuse::out(y) <<= e / fuse::row_sum<1>(e)));
  };
  contract("fuse::rows", softmax, {{"out", SET(y), 4, 4000, W}, {"in", SET(x), 4, 4000, I}, {"per_row", SET(scale), 4, 40, R}, {"per_col", SET(shift), 4, 400, R}},
           {{"count", NUM(count), 10, {-1, kHuge, kMost}}, {"cols", NUM(n), 100, {-1, kHuge, kMost}}});
}

void papers() {
  {
    double *out, *v, *x;
    int64_t n, stride;
    for (int second : {0, 1})
      for (int64_t each : {0, 1})
        contract(second ? "log_bessel_k" : "log_bessel_i", CALL((second ? log_bessel_k : log_bessel_i)(out, v, stride, x, n, nullptr)),
                 {{"out", SET(out), 8, 8000, W}, {"v", SET(v), 8, each ? 8000 : 8, each ? I : R}, {"x", SET(x), 8, 8000, I}}, {{"n", NUM(n), 1000, {-1, kHuge, kMost}}, {"v_stride", NUM(stride), each, {-1, 2, kMost}}});
  }
  {
    SpinGlassArgs a;
    contract("spin_glass_sweep", CALL(spin_glass_sweep(a, nullptr)), {{"spins", SET(a.spins), 8, 800, W}, {"right", SET(a.right), 8, 800, R}, {"down", SET(a.down), 8, 800, R}},
             {{"size", NUM(a.size), 10, {-2, 0, 2, 9, 65536, kHuge, kMost}}, {"sweeps", NUM(a.sweeps), 2, {-1, kMost}}, {"beta", NUM(a.beta), 1, {-1}}});
    a.beta = NAN;
    NAMES(spin_glass_sweep(a, nullptr), "beta");
  }
  {
    TreeHistogramArgs a;
    a.scale = 1024;
    constexpr int64_t kCells = 2 * 5 * 40;
    contract("tree_histograms", CALL(tree_histograms(a, nullptr)),
             {{"sums", SET(a.sums), 8, kCells * 3 * 8, W}, {"counts", SET(a.counts), 4, kCells * 4, W}, {"bins", SET(a.bins), 4, 1600, R}, {"gradients", SET(a.gradients), 4, 2400, R}, {"order", SET(a.order), 4, 800, R}, {"begin", SET(a.begin), 4, 12, R}},
             {{"samples", NUM(a.samples), 200, {-1, kHuge, kMost}}, {"features", NUM(a.features), 5, {-1, 0, 65536, kHuge}}, {"pitch", NUM(a.pitch), 8, {-8, 4, 10, kHuge, kMost}}, {"bin_count", NUM(a.bin_count), 40, {-1, 1, 257, kMost}},
              {"outputs", NUM(a.outputs), 3, {-1, 0, 17, kMost}}, {"nodes", NUM(a.nodes), 2, {-1, 0, kHuge, kMost}}});
    for (float scale : {0.f, -1.f, INFINITY, NAN}) {
      a.scale = scale;
      NAMES(tree_histograms(a, nullptr), "scale");
    }
  }
  {
    TreeSplitArgs a;
    a.scale = 1024;
    constexpr int64_t kCells = 2 * 5 * 40;
    const std::vector<Size> sizes = {{"features", NUM(a.features), 5, {-1, 0, 65536, kHuge}}, {"bin_count", NUM(a.bin_count), 40, {-1, 1, 257, kMost}}, {"outputs", NUM(a.outputs), 3, {-1, 0, 17, kMost}}, {"nodes", NUM(a.nodes), 2, {-1, 0, kHuge, kMost}},
                                     {"least_count", NUM(a.least_count), 1, {-1, 0}}, {"l2", NUM(a.l2), 1, {-1}}, {"score", NUM(a.score), 1, {2, 255}}};
    contract("tree_split", CALL(tree_split(a, nullptr)),
             {{"split", SET(a.split), 4, 16, W}, {"gain", SET(a.gain), 8, 16, W}, {"sums", SET(a.sums), 8, kCells * 3 * 8, R}, {"counts", SET(a.counts), 4, kCells * 4, R}, {"workspace", SET(a.workspace), 8, int64_t(tree_split_workspace(2, 5)), WS}}, sizes);
    for (float scale : {0.f, -1.f, INFINITY, NAN}) {
      a.scale = scale;
      NAMES(tree_split(a, nullptr), "scale");
    }
  }
}

void networks() {
  const std::vector<int64_t> bad = {-1, kHuge, kMost};
  {
    void* planes;
    int32_t* sums;
    int8_t* in;
    int bits;
    int64_t rows, cols, pitch;
    contract("pack_bits", CALL(pack_bits(planes, sums, in, bits, rows, cols, pitch, nullptr)), {{"planes", SET(planes), 16, 3 * 5 * 32, W}, {"sums", SET(sums), 4, 20, W}, {"in", SET(in), 1, 4 * 150 + 140, R}},
             {{"bits", NUM(bits), 3, {-1, 0, 9, 32}}, {"rows", NUM(rows), 5, bad}, {"cols", NUM(cols), 140, bad}, {"pitch", NUM(pitch), 150, {-1, 139, kHuge, kMost}}});
    BitGemmArgs g;
    contract("gemm_bits", CALL(gemm_bits(g, nullptr)),
             {{"d", SET(g.d), 4, (4 * 12 + 7) * 4, W}, {"a.planes", SET(g.a.planes), 16, 2 * 5 * 32, R}, {"a.sums", SET(g.a.sums), 4, 20, R}, {"b.planes", SET(g.b.planes), 16, 3 * 7 * 32, R}, {"b.sums", SET(g.b.sums), 4, 28, R}},
             {{"m", NUM(g.m), 5, bad}, {"n", NUM(g.n), 7, bad, "d_stride"}, {"k", NUM(g.k), 140, {-1, 0, kHuge, kMost}}, {"a.bits", NUM(g.a.bits), 2, {-1, 0, 9}}, {"b.bits", NUM(g.b.bits), 3, {-1, 0, 9}}, {"d_stride", NUM(g.d_stride), 12, {-1, 6, kHuge, kMost}}});
  }
  {
    ShiftGemmArgs g;
    std::vector<Size> sizes = {{"m", NUM(g.m), 5, bad}, {"n", NUM(g.n), 7, bad}, {"k", NUM(g.k), 70, {-1, 0, kHuge, kMost}}, {"a_stride", NUM(g.a_stride), 72, {-1, 69, kHuge, kMost}}, {"d_stride", NUM(g.d_stride), 12, {-1, 6, kHuge, kMost}}};
    auto with = [&](Size bytes, Size w_stride) {
      auto all = sizes;
      all.push_back(bytes), all.push_back(w_stride);
      return all;
    };
    contract("gemm_shift", CALL(gemm_shift(g, nullptr)), {{"d", SET(g.d), 4, (4 * 12 + 7) * 4, W}, {"a", SET(g.a), 4, (4 * 72 + 70) * 4, R}, {"w", SET(g.w), 1, 6 * 75 + 70, R}},
             with({"a_bytes", NUM(g.a_bytes), 4, {-1, 0, 2, 8}}, {"w_stride", NUM(g.w_stride), 75, {-1, 69, kHuge, kMost}}));
    contract("gemm_add", CALL(gemm_add(g, nullptr)), {{"d", SET(g.d), 4, (4 * 12 + 7) * 4, W}, {"a", SET(g.a), 1, 4 * 72 + 70, R}, {"w", SET(g.w), 4, (6 * 4 + 3) * 4, R}},
             with({"a_bytes", NUM(g.a_bytes), 1, {-1, 0, 2, 4}}, {"w_stride", NUM(g.w_stride), 4, {-1, 2, kHuge, kMost}}));
  }
  {
    SpmmArgs g;
    contract("spmm", CALL(spmm(g, nullptr)),
             {{"out", SET(g.out), 2, 2 * 8 * 20 * 2, W}, {"row_starts", SET(g.row_starts), 4, 20, R}, {"columns", SET(g.columns), 4, 36, R}, {"values", SET(g.values), 4, 36, R}, {"x", SET(g.x), 2, 2 * 10 * 20 * 2, R}, {"bias", SET(g.bias), 4, 32, N}},
             {{"images", NUM(g.images), 2, bad}, {"n", NUM(g.n), 8, {-1, 7, kHuge, kMost}}, {"k", NUM(g.k), 10, {-1, 0, kHuge, kMost}}, {"pixels", NUM(g.pixels), 20, bad}, {"block", NUM(g.block), 2, {-1, 0, 3, 8}}, {"entries", NUM(g.entries), 9, bad},
              {"dtype", NUM(g.dtype), int64_t(DType::kBF16), {int64_t(DType::kE4M3), int64_t(DType::kI8), 200}}});
  }
  {
    MhdArgs g;
    constexpr int64_t kBytes = 3 * 2 * 2 * 8 * 27 * 8;
    contract("mhd_residual", CALL(mhd_residual(g, nullptr)), {{"out", SET(g.out), 16, kBytes, W}, {"u", SET(g.u), 16, kBytes, R}, {"base", SET(g.base), 16, kBytes, IN}},
             {{"nx", NUM(g.nx), 3, bad, "nz"}, {"ny", NUM(g.ny), 2, bad, "nz"}, {"nz", NUM(g.nz), 2, {-1, int64_t(1) << 28, kHuge, kMost}}, {"order", NUM(g.order), 3, {-1, 0, 1, 7, 3 + 65536}},
              {"size_x", NUM(g.size_x), 1, {-1, 0}}, {"size_y", NUM(g.size_y), 1, {-1, 0}}, {"size_z", NUM(g.size_z), 1, {-1, 0}}, {"gamma", NUM(g.gamma), 2, {-1, 0, 1}}});
    const struct { const char* name; double* p; } all[] = {{"size_x", &g.size_x}, {"size_y", &g.size_y}, {"size_z", &g.size_z}, {"gamma", &g.gamma}, {"base_weight", &g.base_weight}, {"u_weight", &g.u_weight}, {"rate_weight", &g.rate_weight}};
    for (const auto& x : all)
      for (double fault : {double(NAN), double(INFINITY)}) {
        const double good = *x.p;
        *x.p = fault;
        NAMES(mhd_residual(g, nullptr), x.name);
        *x.p = good;
      }
  }
  {
    GroupedConvArgs g;
    contract("conv_grouped", CALL(conv_grouped(g, nullptr)), {{"out", SET(g.out), 16, 2 * 5 * 9 * 16 * 2, W}, {"x", SET(g.x), 16, 2 * 5 * 9 * 16 * 2, R}, {"w", SET(g.w), 4, 16 * 9 * 4 * 2, R}, {"bias", SET(g.bias), 4, 64, N}},
             {{"images", NUM(g.images), 2, bad}, {"height", NUM(g.height), 5, bad}, {"width", NUM(g.width), 9, bad}, {"channels", NUM(g.channels), 16, {-8, 12, 20, kHuge, kMost}}, {"group", NUM(g.group), 4, {-1, 0, 3, 128}},
              {"stride", NUM(g.stride), 1, {-1, 0, 3}}, {"dtype", NUM(g.dtype), int64_t(DType::kBF16), {int64_t(DType::kF32), int64_t(DType::kE4M3), 200}}});
  }
  {
    MoeArgs g;
    g.tokens = 5, g.rows = 10, g.hidden = 64, g.inner = 24, g.groups = 3, g.top_k = 2;
    const int64_t workspace = int64_t(moe_workspace(g));
    contract("moe", CALL(moe(g, nullptr)),
             {{"out.data", SET(g.out.data), 2, (4 * 72 + 64) * 2, W}, {"group_ends", SET(g.group_ends), 4, 12, R}, {"x.data", SET(g.x.data), 16, 10 * 64 * 2, R}, {"w1", SET(g.w1), 16, 3 * 48 * 64 * 2, R}, {"w2", SET(g.w2), 16, 3 * 64 * 24 * 2, R},
              {"token_rows", SET(g.token_rows), 4, 40, R}, {"token_weights", SET(g.token_weights), 4, 40, N}, {"workspace", SET(g.workspace), 256, workspace, WS}},
             {{"tokens", NUM(g.tokens), 5, bad}, {"rows", NUM(g.rows), 10, {-1, kHuge, kMost, int64_t(1) << 24}}, {"hidden", NUM(g.hidden), 64, {-1, 0, kHuge, kMost}, "groups"}, {"inner", NUM(g.inner), 24, {-1, 0, kHuge, kMost}, "groups"},
              {"groups", NUM(g.groups), 3, {-1, 0x7fffffff}}, {"x strides", NUM(g.x.row_stride), 64, {-1, 56, 68, kHuge, kMost}}, {"w1_stride", NUM(g.w1_stride), 64, {-1, 56, 68, kHuge, kMost}}, {"w2_stride", NUM(g.w2_stride), 24, {-1, 16, 28, kHuge, kMost}},
              {"top_k", NUM(g.top_k), 2, {-1, 0, 33, kMost}}, {"out strides", NUM(g.out.row_stride), 72, {-1, 63, kHuge, kMost}}, {"activation", NUM(g.activation), 0, {4, 255}}});
    for (DType t : {DType::kF32, DType::kE4M3, DType(200)}) {
      g.x.dtype = t;
      NAMES(moe(g, nullptr), "x.dtype");
      g.x.dtype = DType::kBF16, g.out.dtype = t == DType::kF32 ? DType::kI8 : t;
      NAMES(moe(g, nullptr), "out.dtype");
      g.out.dtype = DType::kBF16;
    }
  }
}

}  // namespace

int main() {
  memory_bound();
  products();
  attention();
  interleaved();
  fusion();
  papers();
  networks();
  std::printf("PASS contracts: %d faults refused\n", faults);
}
