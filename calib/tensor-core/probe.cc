// probe: multiplies a few hundred small matrices with every tensor-core instruction that the GPU has and writes the
// results, from which `orrery identify` tells what kind of tensor core made them. Needs only libcuda, opened at run time:
//
//   g++ -std=c++20 -O2 -I src calib/tensor-core/probe.cc -o tensor_probe -ldl
//   ./tensor_probe probe-output            on a GPU, or: orrery run --gpu a100 ./tensor_probe probe-output
//
// Inputs and the format of the output: src/sem/probe.h. Fragments are those of the PTX manual; wmma loads its own.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sem/probe.h"

using namespace orrery::sem::probe;

namespace {

using Ptr = unsigned long long;
struct Driver {
  int (*init)(unsigned), (*device_get)(int*, int), (*ctx_create)(void**, unsigned, int), (*load)(void**, const void*), (*get_function)(void**, void*, const char*),
      (*alloc)(Ptr*, size_t), (*to_device)(Ptr, const void*, size_t), (*from_device)(void*, Ptr, size_t), (*sync)(), (*name)(char*, int, int), (*attribute)(int*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
} cu;

void must(int rc, const char* what) {
  if (!rc) return;
  fprintf(stderr, "tensor_probe: %s: CUDA error %d\n", what, rc);
  exit(1);
}

int open_driver() {
  void* lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) must(999, "libcuda.so.1 not found");
  const auto sym = [&](auto& f, const char* n) { f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(lib, n)); };
  sym(cu.init, "cuInit"), sym(cu.device_get, "cuDeviceGet"), sym(cu.ctx_create, "cuCtxCreate_v2"), sym(cu.load, "cuModuleLoadData");
  sym(cu.get_function, "cuModuleGetFunction"), sym(cu.alloc, "cuMemAlloc_v2"), sym(cu.to_device, "cuMemcpyHtoD_v2"), sym(cu.from_device, "cuMemcpyDtoH_v2");
  sym(cu.sync, "cuCtxSynchronize"), sym(cu.name, "cuDeviceGetName"), sym(cu.launch, "cuLaunchKernel"), sym(cu.attribute, "cuDeviceGetAttribute");
  int device, major = 0, minor = 0;
  void* context;
  must(cu.init(0), "cuInit");
  must(cu.device_get(&device, 0), "cuDeviceGet");
  must(cu.ctx_create(&context, 0, device), "cuCtxCreate");
  cu.attribute(&major, 75, device), cu.attribute(&minor, 76, device);
  return 10 * major + minor;
}

int bits_of(Factor f) { return f == Factor::tf32 ? 32 : f == Factor::e4m3 ? 8 : 16; }

// -- kernels: parameters are the addresses of A, B, C and D as `pack` lays them out

std::string list(char letter, int n) {
  std::string t = "{";
  for (int i = 0; i < n; i++) t += (i ? ",%" : "%") + (letter + std::to_string(i));
  return t + "}";
}
std::string registers(char letter, int n, const char* base, int lanes) {
  std::string t = "  .reg .b32 %" + std::string(1, letter) + "<" + std::to_string(n) + ">;\n";
  for (int i = 0; i < n; i++) t += "  ld.global.b32 %" + (letter + std::to_string(i)) + ", [" + base + "+" + std::to_string(4 * lanes * i) + "];\n";
  return t;
}
std::string head(const char* version, const char* target) {
  return std::string(".version ") + version + "\n.target " + target + "\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"
         "  .reg .b64 %pa, %pb, %pc, %pd, %x; .reg .b32 %t, %s;\n  ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; ld.param.u64 %pd, [d];\n  mov.u32 %t, %tid.x;\n";
}
std::string stores(char letter, int n, int lanes) {
  std::string t;
  for (int i = 0; i < n; i++) t += "  st.global.b32 [%pd+" + std::to_string(4 * lanes * i) + "], %" + (letter + std::to_string(i)) + ";\n";
  return t + "  ret;\n}\n";
}
std::string to_lane() { return "  mul.wide.u32 %x, %t, 4; add.u64 %pa, %pa, %x; add.u64 %pb, %pb, %x; add.u64 %pc, %pc, %x; add.u64 %pd, %pd, %x;\n"; }

std::string kernel(const Form& f) {
  const std::string type = f.factor == Factor::f16 ? "f16" : f.factor == Factor::bf16 ? "bf16" : f.factor == Factor::tf32 ? "tf32" : "e4m3";
  const std::string shape = "m" + std::to_string(f.m) + "n" + std::to_string(f.n) + "k" + std::to_string(f.k);
  if (f.kind == Kind::wmma)
    return head("6.3", "sm_70") + "  .reg .b32 %a<8>, %b<8>, %c<8>, %d<8>;\n  mov.u32 %s, 16;\n  wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " + list('a', 8) +
           ", [%pa], %s;\n  wmma.load.b.sync.aligned.row.m16n16k16.global.f16 " + list('b', 8) + ", [%pb], %s;\n  wmma.load.c.sync.aligned.row.m16n16k16.global.f32 " +
           list('c', 8) + ", [%pc], %s;\n  wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 " + list('d', 8) + ", " + list('a', 8) + ", " + list('b', 8) + ", " + list('c', 8) +
           ";\n  wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%pd], " + list('d', 8) + ", %s;\n  ret;\n}\n";
  const int bits = bits_of(f.factor), ra = f.m / (f.kind == Kind::wgmma ? 4 : 1) * f.k * bits / 1024, rb = f.n * f.k * bits / 1024;
  if (f.kind == Kind::mma)
    return head(f.factor == Factor::e4m3 ? "8.4" : "7.0", f.factor == Factor::e4m3 ? "sm_89" : "sm_80") + to_lane() + registers('a', ra, "%pa", 32) + registers('b', rb, "%pb", 32) +
           registers('c', 4, "%pc", 32) + "  .reg .b32 %d<4>;\n  mma.sync.aligned." + shape + ".row.col.f32." + type + "." + type + ".f32 " + list('d', 4) + ", " + list('a', ra) +
           ", " + list('b', rb) + ", " + list('c', 4) + ";\n" + stores('d', 4, 32);
  // wgmma: A and B as shared memory wants them, without swizzle: 8 rows of 16 bytes follow each other
  std::string copy;
  for (int i = 0; i < 4; i++) copy += "  ld.global.b32 %v, [%pa+" + std::to_string(512 * i) + "]; st.shared.b32 [%s+" + std::to_string(512 * i) + "], %v;\n";
  copy += "  setp.ge.u32 %p, %t, 64; @%p bra READY;\n  ld.global.b32 %v, [%pb]; st.shared.b32 [%s+2048], %v;\nREADY:\n";
  return head("8.0", "sm_90a") + "  .shared .align 128 .b8 image[2304]; .reg .b32 %v; .reg .pred %p; .reg .b64 %da, %db;\n" + to_lane() +
         "  mov.u32 %s, image; cvt.u64.u32 %da, %s; shl.b32 %v, %t, 2; add.u32 %s, %s, %v;\n" + copy + registers('c', 4, "%pc", 128) +
         "  fence.proxy.async; bar.sync 0;\n  shr.u64 %da, %da, 4; and.b64 %da, %da, 0x3fff; add.u64 %db, %da, 0x0000000800080080; add.u64 %da, %da, 0x0000000800400000;\n"
         "  wgmma.fence.sync.aligned;\n  wgmma.mma_async.sync.aligned." + shape + ".f32." + type + "." + type + " " + list('c', 4) + ", %da, %db, 1, 1, 1" +
         (f.factor == Factor::f16 ? ", 0, 0" : "") + ";\n  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n" + stores('c', 4, 128);
}

// -- operands

void put(std::vector<uint8_t>& to, size_t index, int bits, uint32_t v) { memcpy(&to[index * size_t(bits) / 8], &v, size_t(bits) / 8); }

/// Where row `row`, 16-byte piece `piece` of K-major rows lies: in registers of 32 lanes (mma), in core matrices (wgmma).
size_t place(const Form& f, bool is_a, int row, int k) {
  const int per = 128 / bits_of(f.factor), piece = k / per, in = k % per;
  if (f.kind == Kind::wmma) return size_t(is_a ? row * f.k + k : k * f.n + row);
  if (f.kind == Kind::wgmma) return size_t(piece * (is_a ? f.m : f.n) * per + row * per + in);
  return size_t((is_a ? piece * 2 + row / 8 : piece) * 8 * per + row % 8 * per + in);
}
size_t place_c(const Form& f, int row, int column) {
  if (f.kind == Kind::wmma) return size_t(row * f.n + column);
  const int lanes = f.kind == Kind::wgmma ? 128 : 32, r = row % 16;
  return size_t((r / 8 * 2 + column % 2) * lanes + row / 16 * 32 + r % 8 * 4 + column / 2);
}

struct Buffers {
  Ptr a = 0, b = 0, c = 0, d = 0;
};

std::vector<uint32_t> multiply(const Form& f, void* function, const Inputs& x, Buffers& m) {
  const int bits = bits_of(f.factor);
  std::vector<uint8_t> a(size_t(f.m * f.k * bits / 8)), b(size_t(f.k * f.n * bits / 8));
  std::vector<uint32_t> c(size_t(f.m * f.n)), d(c.size());
  for (int i = 0; i < f.m; i++)
    for (int k = 0; k < f.k; k++) put(a, place(f, true, i, k), bits, x.a[size_t(i * f.k + k)]);
  for (int j = 0; j < f.n; j++)
    for (int k = 0; k < f.k; k++) put(b, place(f, false, j, k), bits, x.b[size_t(k * f.n + j)]);
  for (int i = 0; i < f.m; i++)
    for (int j = 0; j < f.n; j++) c[place_c(f, i, j)] = x.c[size_t(i * f.n + j)];
  must(cu.to_device(m.a, a.data(), a.size()), "copy");
  must(cu.to_device(m.b, b.data(), b.size()), "copy");
  must(cu.to_device(m.c, c.data(), c.size() * 4), "copy");
  void* args[] = {&m.a, &m.b, &m.c, &m.d};
  must(cu.launch(function, 1, 1, 1, f.kind == Kind::wgmma ? 128 : 32, 1, 1, 0, nullptr, args, nullptr), f.name);
  must(cu.sync(), f.name);
  must(cu.from_device(c.data(), m.d, c.size() * 4), "copy");
  for (int i = 0; i < f.m; i++)
    for (int j = 0; j < f.n; j++) d[size_t(i * f.n + j)] = c[place_c(f, i, j)];
  return d;
}

bool has(const Form& f, int sm) {
  if (f.kind == Kind::wgmma) return sm == 90;
  return sm >= (f.factor == Factor::f16 ? 70 : f.factor == Factor::e4m3 ? 89 : 80);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: tensor_probe OUTPUT\n"), 2;
  const int sm = open_driver();
  FILE* out = fopen(argv[1], "w");
  if (!out) return perror(argv[1]), 1;
  char name[100] = "";
  cu.name(name, sizeof name, 0);
  fprintf(out, "orrery-probe 1\ndevice %s\n", name);
  Buffers m;
  for (Ptr* p : {&m.a, &m.b, &m.c, &m.d}) must(cu.alloc(p, 16384), "cuMemAlloc");
  for (const Form& f : kForms) {
    void *module = nullptr, *function = nullptr;
    if (!has(f, sm)) {
      fprintf(out, "%s unsupported\n", f.name);
      continue;
    }
    must(cu.load(&module, kernel(f).c_str()), f.name);
    must(cu.get_function(&function, module, "k"), f.name);
    for (int t = 0; t < f.tests; t++) {
      fprintf(out, "%s %d ", f.name, t);
      for (const uint32_t v : multiply(f, function, inputs(f, t), m)) fprintf(out, "%08x", v);
      fprintf(out, "\n");
    }
  }
  fclose(out);
  return 0;
}
