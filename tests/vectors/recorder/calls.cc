// calls: what the driver answers to launches of clusters and to tensor maps at the edges of what it takes. The same program
// records on a GPU and compares a simulated one with what was recorded.
//
//   calls record FILE        a line for each call: its name, CUDA's error, what the kernel or the query said
//   calls check FILE         makes the calls again; exit status 1 when any line differs
//
// None of these errors ends the context. Only libcuda is needed; it is opened at run time.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using u32 = uint32_t;
using u64 = uint64_t;
using Text = std::string;
using Ptr = unsigned long long;

struct Attribute {  // CUlaunchAttribute
  int id, pad;
  u32 value[16];
};
struct Config {  // CUlaunchConfig
  u32 grid[3], block[3], shared;
  void* stream;
  Attribute* attributes;
  u32 count;
};
struct Map {
  alignas(64) u64 words[16];
};

constexpr int kClusterDimension = 4;  // CUlaunchAttributeID
constexpr int kDynamicShared = 8, kNonPortable = 14;  // CUfunction_attribute

void* lib;
FILE* out = nullptr;  // where the lines go at once
std::vector<Text> lines;

template <class... A>
int call(const char* name, A... a) {
  const auto f = reinterpret_cast<int (*)(A...)>(dlsym(lib, name));
  return f ? f(a...) : -1;
}
void must(int rc, const char* what) {
  if (rc) fprintf(stderr, "calls: %s: CUDA error %d\n", what, rc), exit(2);
}
void note(const Text& name, int rc, const Text& more = "") {
  lines.push_back(name + " | " + std::to_string(rc) + more);
  if (out) fprintf(out, "%s\n", lines.back().c_str()), fflush(out);
}

const char* const kModule =
    ".version 8.3\n.target sm_90a\n.address_size 64\n"
    ".visible .entry any(.param .u64 out) {\n.reg .b64 %o; .reg .b32 %v, %x; .reg .pred %p;\n"
    "ld.param.u64 %o, [out]; mov.u32 %x, %tid.x; setp.ne.u32 %p, %x, 0; @%p bra E;\n"
    "mov.u32 %v, %cluster_nctaid.x; st.global.b32 [%o], %v; mov.u32 %v, %cluster_nctaid.y; st.global.b32 [%o+4], %v;\n"
    "mov.u32 %v, %cluster_nctaid.z; st.global.b32 [%o+8], %v; mov.u32 %v, %cluster_nctarank; st.global.b32 [%o+12], %v; E: ret; }\n"
    ".visible .entry two(.param .u64 out) .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }\n"
    ".visible .entry sixteen(.param .u64 out) .explicitcluster .reqnctapercluster 16, 1, 1 { ret; }\n"
    ".visible .entry most4(.param .u64 out) .maxclusterrank 4 { ret; }\n";

struct Kernels {
  void *module, *any, *two, *sixteen, *most4;
  Ptr out;
  void open() {
    must(call("cuModuleLoadData", &module, static_cast<const void*>(kModule)), "cuModuleLoadData");
    must(call("cuModuleGetFunction", &any, module, "any"), "any"), must(call("cuModuleGetFunction", &two, module, "two"), "two");
    must(call("cuModuleGetFunction", &sixteen, module, "sixteen"), "sixteen"), must(call("cuModuleGetFunction", &most4, module, "most4"), "most4");
    must(call("cuMemAlloc_v2", &out, size_t(64)), "cuMemAlloc");
  }
};

void launch(const Text& name, Kernels& k, void* f, const u32 (&grid)[3], const u32 (&cluster)[3], u32 threads = 32, u32 shared = 0) {
  Attribute a{kClusterDimension, 0, {cluster[0], cluster[1], cluster[2]}};
  Config c{{grid[0], grid[1], grid[2]}, {threads, 1, 1}, shared, nullptr, &a, cluster[0] ? 1u : 0u};
  void* args[] = {&k.out};
  u32 got[4] = {};
  must(call("cuMemsetD8_v2", k.out, static_cast<unsigned char>(0), size_t(16)), "cuMemsetD8");
  int rc = call("cuLaunchKernelEx", static_cast<const Config*>(&c), f, static_cast<void**>(args), static_cast<void**>(nullptr));
  if (!rc) rc = call("cuCtxSynchronize");
  if (!rc) must(call("cuMemcpyDtoH_v2", static_cast<void*>(got), k.out, sizeof got), "copy");
  char t[80];
  snprintf(t, sizeof t, " %u %u %u %u", got[0], got[1], got[2], got[3]);
  note(name, rc, rc ? "" : t);
}

void launches(Kernels& k) {
  for (const bool wide : {false, true}) {
    if (wide) must(call("cuFuncSetAttribute", k.any, kNonPortable, 1), "cuFuncSetAttribute");
    const Text s = wide ? ", sizes not portable" : "";
    for (const u32 n : {1u, 2u, 3u, 5u, 7u, 8u, 9u, 12u, 13u, 15u, 16u, 17u, 32u}) launch("cluster " + std::to_string(n) + s, k, k.any, {n, 1, 1}, {n, 1, 1});
    launch("cluster 4 x 4" + s, k, k.any, {8, 8, 1}, {4, 4, 1}), launch("cluster 1 x 2 x 3" + s, k, k.any, {3, 4, 6}, {1, 2, 3}), launch("cluster 1 x 1 x 16" + s, k, k.any, {1, 1, 16}, {1, 1, 16});
  }
  launch("cluster 2 of a grid of 3", k, k.any, {3, 1, 1}, {2, 1, 1}), launch("cluster 4 of a grid of 2", k, k.any, {2, 1, 1}, {4, 1, 1}), launch("cluster 1 x 2 of a grid of 4 x 3", k, k.any, {4, 3, 1}, {1, 2, 1});
  launch("cluster 2 x 0", k, k.any, {4, 1, 1}, {2, 0, 1});
  launch("kernel of 2, no attribute", k, k.two, {4, 1, 1}, {0, 0, 0}), launch("kernel of 2, grid of 3", k, k.two, {3, 1, 1}, {0, 0, 0}), launch("kernel of 2, attribute 2", k, k.two, {4, 1, 1}, {2, 1, 1});
  launch("kernel of 2, attribute 4", k, k.two, {4, 1, 1}, {4, 1, 1}), launch("kernel of 2, attribute 1 x 2", k, k.two, {4, 2, 1}, {1, 2, 1});
  launch("kernel of 16, no attribute", k, k.sixteen, {16, 1, 1}, {0, 0, 0});
  must(call("cuFuncSetAttribute", k.sixteen, kNonPortable, 1), "cuFuncSetAttribute");
  launch("kernel of 16, sizes not portable", k, k.sixteen, {16, 1, 1}, {0, 0, 0});
  launch("kernel of at most 4, cluster 4", k, k.most4, {8, 1, 1}, {4, 1, 1}), launch("kernel of at most 4, cluster 8", k, k.most4, {8, 1, 1}, {8, 1, 1});
  launch("cluster 2 of 1025 threads", k, k.any, {2, 1, 1}, {2, 1, 1}, 1025);
  must(call("cuFuncSetAttribute", k.any, kDynamicShared, 200 * 1024), "cuFuncSetAttribute");
  for (const u32 n : {8u, 16u}) launch("cluster " + std::to_string(n) + " of 200 KB", k, k.any, {n, 1, 1}, {n, 1, 1}, 32, 200 * 1024);
}

void queries(Kernels& k) {
  for (const u32 n : {1u, 2u, 4u, 8u, 16u, 32u})
    for (const u32 shared : {0u, 200u * 1024}) {
      Attribute a{kClusterDimension, 0, {n, 1, 1}};
      const Config c{{n * 64, 1, 1}, {128, 1, 1}, shared, nullptr, &a, 1};
      int clusters = -1;
      const int rc = call("cuOccupancyMaxActiveClusters", &clusters, k.any, &c);
      // How many fit depends on which SMs of the GPU work.
      note("active clusters of " + std::to_string(n) + " with " + std::to_string(shared) + " bytes", rc, rc ? "" : clusters > 0 ? " some" : " none");
    }
  for (void* f : {k.any, k.two, k.most4}) {
    const Config c{{64, 1, 1}, {128, 1, 1}, 0, nullptr, nullptr, 0};
    int size = -1;
    const int rc = call("cuOccupancyMaxPotentialClusterSize", &size, f, &c);
    note(Text("largest cluster of ") + (f == k.any ? "any" : f == k.two ? "two" : "most4"), rc, " " + std::to_string(size));
  }
  for (const int a : {10, 11, 12, 13, 14, 15})
    for (void* f : {k.any, k.two, k.sixteen, k.most4}) {
      int v = -1;
      const int rc = call("cuFuncGetAttribute", &v, a, f);
      note("attribute " + std::to_string(a) + " of " + (f == k.any ? "any" : f == k.two ? "two" : f == k.sixteen ? "sixteen" : "most4"), rc, " " + std::to_string(v));
    }
}

void wide_maps(Ptr data) {
  struct Wide {
    int type = 7;
    u32 rank = 4;
    u64 address = 0, dims[5] = {64, 32, 8, 4, 2}, strides[4] = {256, 8192, 65536, 262144};
    int lower = 0, upper = 0;
    u32 channels = 16, pixels = 32, steps[5] = {1, 1, 1, 1, 1};
    int interleave = 0, mode = 0, swizzle = 3, promotion = 0, fill = 0;
  };
  const auto encode = [&](const Text& name, Wide w) {
    Map m{};
    const int rc = call("cuTensorMapEncodeIm2colWide", &m, w.type, w.rank, reinterpret_cast<void*>(data + w.address), static_cast<const u64*>(w.dims), static_cast<const u64*>(w.strides), w.lower, w.upper, w.channels, w.pixels,
                        static_cast<const u32*>(w.steps), w.interleave, w.mode, w.swizzle, w.promotion, w.fill);
    note("im2col wide, " + name, rc);
  };
  encode("plain", {});
  for (const u32 r : {2u, 3u, 5u, 6u}) encode("rank " + std::to_string(r), {.rank = r});
  for (const int m : {1, 2}) encode("mode " + std::to_string(m), {.mode = m});
  for (const int s : {0, 1, 2, 4, 5, 6}) encode("swizzle " + std::to_string(s), {.swizzle = s});
  for (const int i : {1, 2}) encode("interleave " + std::to_string(i), {.interleave = i});
  for (const int l : {-128, -32768, -129, 127, 128, 32767}) encode("lower " + std::to_string(l), {.lower = l});
  for (const u32 c : {0u, 1u, 4u, 32u, 256u, 257u}) encode("channels " + std::to_string(c), {.channels = c});
  for (const u32 p : {0u, 1u, 1024u, 1025u}) encode("pixels " + std::to_string(p), {.pixels = p});
  for (const int l : {-128, -129, -512, -513, -32768, -32769, 31, 32}) encode("rank 3, lower " + std::to_string(l), {.rank = 3, .lower = l});
  for (const int l : {-16, -17, -32, -33, -128}) encode("rank 5, lower " + std::to_string(l), {.rank = 5, .lower = l});
  for (const int u : {-31, -32, -33, -128, -129, 15, 16, 127, 128, 511, 512, 32767, 32768})
    for (const u32 r : {3u, 4u, 5u}) encode("rank " + std::to_string(r) + ", upper " + std::to_string(u), {.rank = r, .upper = u});
  for (const u32 p : {0u, 1u, 64u, 1024u, 1025u}) encode("mode 1, pixels " + std::to_string(p), {.pixels = p, .mode = 1});
  encode("mode 1, lower -3, upper 2", {.lower = -3, .upper = 2, .mode = 1}), encode("channels 16, swizzle 2", {.swizzle = 2}), encode("channels 32, swizzle 2", {.channels = 32, .swizzle = 2}), encode("channels 256, no swizzle", {.channels = 256, .swizzle = 0});
  for (const int s : {0, 1, 2, 3}) encode("interleave 1, swizzle " + std::to_string(s), {.interleave = 1, .swizzle = s}), encode("interleave 2, swizzle " + std::to_string(s), {.interleave = 2, .swizzle = s});
  encode("address + 8", {.address = 8}), encode("fill NaN", {.fill = 1}), encode("element stride 9", {.steps = {1, 9, 1, 1, 1}}), encode("type 6", {.type = 6, .swizzle = 3}), encode("type 13", {.type = 13});
}

void other_maps(Ptr data) {
  const u64 dims[2] = {64, 64}, strides[1] = {256};
  const u32 box[2] = {32, 8}, steps[2] = {1, 1};
  const auto tiled = [&](Map* m, int type, int swizzle, void* at) {
    return call("cuTensorMapEncodeTiled", m, type, 2u, at, static_cast<const u64*>(dims), static_cast<const u64*>(strides), static_cast<const u32*>(box), static_cast<const u32*>(steps), 0, swizzle, 0, 0);
  };
  void* const at = reinterpret_cast<void*>(data);
  for (int t = 0; t < 18; t++)
    for (int s = 0; s < 8; s++)
      if (t == 7 || s == 0) {
        Map m{};
        note("tiled, type " + std::to_string(t) + ", swizzle " + std::to_string(s), tiled(&m, t, s, at));
      }
  Map m{};
  must(tiled(&m, 7, 0, at), "cuTensorMapEncodeTiled");
  for (const u64 offset : {0ull, 16ull, 4096ull, 8ull, 1ull}) {
    const int rc = call("cuTensorMapReplaceAddress", &m, reinterpret_cast<void*>(data + offset));
    Map same{};
    const bool made = tiled(&same, 7, 0, reinterpret_cast<void*>(data + offset)) == 0;
    note("address + " + std::to_string(offset) + " in a map", rc, made && !memcmp(&m, &same, sizeof m) ? " as encoded" : " other");
  }
  note("null address in a map", call("cuTensorMapReplaceAddress", &m, static_cast<void*>(nullptr)));
  Map zeros{};
  note("address in zeros", call("cuTensorMapReplaceAddress", &zeros, at));
}

int check(const char* file) {
  FILE* f = fopen(file, "r");
  if (!f) return perror(file), 2;
  size_t at = 0, different = 0;
  for (char line[512]; fgets(line, sizeof line, f); at++) {
    const Text t(line, strcspn(line, "\n"));
    if (at < lines.size() && lines[at] == t) continue;
    different++;
    printf("recorded %s\nhere     %s\n", t.c_str(), at < lines.size() ? lines[at].c_str() : "nothing");
  }
  fclose(f);
  printf("%zu calls, %zu differ\n", lines.size(), different);
  return different || at != lines.size();
}

}  // namespace

int main(int argc, char** argv) {
  const Text mode = argc > 1 ? argv[1] : "";
  if (argc < 3 || (mode != "record" && mode != "check")) return fprintf(stderr, "usage: calls record FILE | calls check FILE\n"), 2;
  lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) must(-1, "libcuda.so.1 not found");
  int device;
  void* context;
  Ptr data;
  must(call("cuInit", 0u), "cuInit"), must(call("cuDeviceGet", &device, 0), "cuDeviceGet"), must(call("cuCtxCreate_v2", &context, 0u, device), "cuCtxCreate");
  must(call("cuMemAlloc_v2", &data, size_t(8) << 20), "cuMemAlloc");
  Kernels k;
  k.open();
  if (mode == "record" && !(out = fopen(argv[2], "w"))) return perror(argv[2]), 2;
  launches(k), other_maps(data), queries(k), wide_maps(data);
  if (mode == "check") return check(argv[2]);
  fclose(out);
  printf("%zu calls\n", lines.size());
  return 0;
}
