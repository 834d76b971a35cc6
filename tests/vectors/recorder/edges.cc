// edges: small kernels at the edges of Hopper's asynchronous instructions, through libcuda: counts out of range, addresses
// out of line, masks that name nobody, maps changed on the device. The same program records on a GPU and compares a
// simulated one with what was recorded.
//
//   edges record FILE [PREFIX...]   a line for each case: its name, CUDA's error, the words that it wrote
//   edges check FILE [PREFIX...]    runs the cases again; exit status 1 when any line differs
//   edges list                      the PTX of all cases
//
// With prefixes only the cases whose names begin with one of them.
// A case is the body of a kernel. Every wait is bounded. Thread 0 does the work unless the case says otherwise; %out is
// where the block's 64 words of results go, %in 64 KB of numbers. Only libcuda is needed; it is opened at run time.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "edges.h"

using namespace edges;

namespace {

using Ptr = unsigned long long;

struct Map {
  alignas(64) u64 words[16];
};
struct Driver {
  int (*init)(unsigned), (*device_get)(int*, int), (*ctx_create)(void**, unsigned, int), (*load)(void**, const void*), (*unload)(void*), (*get_function)(void**, void*, const char*),
      (*alloc)(Ptr*, size_t), (*to_device)(Ptr, const void*, size_t), (*from_device)(void*, Ptr, size_t), (*sync)(), (*set)(void*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*tiled)(Map*, u32, u32, void*, const u64*, const u64*, const u32*, const u32*, u32, u32, u32, u32);
} cu;

Text module_of(const Case& c) {
  return ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 in)\n" +
         (c.cluster > 1 ? ".explicitcluster\n.reqnctapercluster " + num(u64(c.cluster)) + ", 1, 1\n" : Text()) +
         "{\n.reg .b64 %map, %out, %outs, %in, %s, %s2, %w, %w2, %d, %d2, %in64;\n.reg .f64 %fd;\n.reg .f32 %ff;\n.reg .b32 %x, %rank, %lane, %sm, %bar, %a, %b, %c, %v, %n, %h, %zero, %n32, %in32;\n.reg .b16 %m16;\n.reg .pred %p, %p2, %q;\n"
         ".shared .align 1024 .b8 sm[32768];\n.shared .align 16 .b64 bars[4];\n"
         "mov.b64 %map, map;\ncvta.param.u64 %map, %map;\nld.param.u64 %outs, [out];\nld.param.u64 %in, [in];\nmov.u32 %x, %tid.x;\nmov.u32 %lane, %laneid;\nmov.u32 %sm, sm;\nmov.u32 %bar, bars;\nmov.u32 %zero, 0;\nmov.u32 %n32, 48;\n"
         "mov.u32 %rank, %ctaid.x;\nmul.wide.u32 %out, %rank, 256;\nadd.u64 %out, %out, %outs;\nld.global.b64 %in64, [%in+64];\nld.global.b32 %in32, [%in+96];\nsetp.ne.u32 %q, %x, 0;\n"
         // Shared memory: the numbers of %in, other ones for each block.
         "shl.b32 %a, %x, 2;\nFILL:\nmad.lo.u32 %b, %rank, 4096, %a;\ncvt.u64.u32 %d, %b;\nadd.u64 %d, %d, %in;\nld.global.b32 %v, [%d];\nadd.u32 %b, %sm, %a;\nst.shared.b32 [%b], %v;\nadd.u32 %a, %a, 128;\nsetp.lt.u32 %p, %a, 32768;\n@%p bra FILL;\n"
         "bar.sync 0;\n" + c.body + "ret;\n}\n";
}

void must(int rc, const char* what) {
  if (rc) fprintf(stderr, "edges: %s: CUDA error %d\n", what, rc), exit(2);
}
void open_driver() {
  void* lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) must(-1, "libcuda.so.1 not found");
  const auto sym = [&](auto& f, const char* n) { f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(lib, n)); };
  sym(cu.init, "cuInit"), sym(cu.device_get, "cuDeviceGet"), sym(cu.ctx_create, "cuCtxCreate_v2"), sym(cu.load, "cuModuleLoadData"), sym(cu.unload, "cuModuleUnload");
  sym(cu.get_function, "cuModuleGetFunction"), sym(cu.alloc, "cuMemAlloc_v2"), sym(cu.to_device, "cuMemcpyHtoD_v2"), sym(cu.from_device, "cuMemcpyDtoH_v2"), sym(cu.sync, "cuCtxSynchronize");
  sym(cu.launch, "cuLaunchKernel"), sym(cu.tiled, "cuTensorMapEncodeTiled"), sym(cu.set, "cuFuncSetAttribute");
  must(cu.init(0), "cuInit");
}

constexpr size_t kIn = 1 << 17, kOut = 8192;

struct Device {
  Ptr in = 0, out = 0;
  std::vector<u32> numbers;
  void open() {
    int dev;
    void* ctx;
    must(cu.device_get(&dev, 0), "cuDeviceGet"), must(cu.ctx_create(&ctx, 0, dev), "cuCtxCreate"), must(cu.alloc(&in, kIn), "cuMemAlloc"), must(cu.alloc(&out, kOut), "cuMemAlloc");
    u64 s = 7;
    for (size_t i = 0; i < kIn / 4; i++) {
      s = s * 6364136223846793005ull + 1442695040888963407ull;
      u32 v = u32(s >> 33);
      if (i % 13 == 5) v = 0x7fc00000 | (v & 0xffff);  // NaN in most types
      if (i % 17 == 3) v = 0x80000000;
      if (i % 19 == 7) v &= 0x000f000f;
      numbers.push_back(v);
    }
    must(cu.to_device(in, numbers.data(), kIn), "copy");
  }
};

Text run_case(const Case& c, Device& d) {
  void *module, *f;
  if (const int rc = cu.load(&module, module_of(c).c_str())) return "not loaded " + std::to_string(rc);
  must(cu.get_function(&f, module, "k"), "cuModuleGetFunction");
  Map map;
  const u64 dims[2] = {64, 64}, strides[1] = {256};
  const u32 box[2] = {c.swizzle == 1 ? 8u : c.swizzle == 2 ? 16u : 32u, c.swizzle == 1 ? 32u : c.swizzle == 2 ? 16u : 8u}, steps[2] = {1, 1};
  must(cu.tiled(&map, 7, 2, reinterpret_cast<void*>(d.in), dims, strides, box, steps, 0, u32(c.swizzle), 0, 0), "cuTensorMapEncodeTiled");
  if (c.cluster > 8) must(cu.set(f, 14, 1), "cuFuncSetAttribute");  // clusters of sizes that are not portable
  must(cu.to_device(d.out, d.numbers.data() + 512, kOut), "copy");
  void* args[] = {&map, &d.out, &d.in};
  int rc = cu.launch(f, unsigned(c.cluster), 1, 1, unsigned(c.threads), 1, 1, 0, nullptr, args, nullptr);
  if (!rc) rc = cu.sync();
  if (rc) return "error " + std::to_string(rc);
  std::vector<u32> out(kOut / 4);
  if (const int late = cu.from_device(out.data(), d.out, 4096)) return "error " + std::to_string(late);
  // Words that are as they were are left out.
  Text t = "ok";
  char word[40];
  for (size_t i = 0; i < 64 * size_t(c.cluster); i++)
    if (out[i] != d.numbers[512 + i]) snprintf(word, sizeof word, " %zu:%x", i, out[i]), t += word;
  cu.unload(module);
  return t;
}

constexpr size_t kLine = 4096;
constexpr unsigned kSeconds = 20;  // for one case: then its process is ended
struct Results {
  u32 next[64];
  char line[1024][kLine];
};

void run_all(Results& r) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const u32 workers = cores < 1 ? 1 : cores > 12 ? 12 : u32(cores);
  fflush(nullptr);
  for (u32 w = 0; w < workers; w++) {
    if (fork()) continue;
    u32& next = r.next[w];
    for (next = w; next < cases.size();) {  // a process for all cases up to the first fault
      if (const pid_t child = fork()) {
        int status;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) fprintf(stderr, "edges: signal %d before case %u\n", WTERMSIG(status), next);
        continue;
      }
      open_driver();
      Device d;
      d.open();
      while (next < cases.size()) {
        const u32 i = next;
        next += workers;
        strncpy(r.line[i], "the process ended", kLine - 1);
        alarm(kSeconds);
        const Text t = run_case(cases[i], d);
        strncpy(r.line[i], t.c_str(), kLine - 1);
        if (t.compare(0, 2, "ok")) break;
      }
      _exit(0);
    }
    _exit(0);
  }
  while (::wait(nullptr) > 0) {
  }
}

int check(const char* file, const Results& r) {
  FILE* f = fopen(file, "r");
  if (!f) return perror(file), 2;
  std::map<Text, Text> recorded;
  static char line[kLine + 256];
  while (fgets(line, sizeof line, f)) {
    const Text t(line, strcspn(line, "\n"));
    if (const size_t at = t.find(" | "); at != Text::npos) recorded[t.substr(0, at)] = t.substr(at + 3);
  }
  fclose(f);
  size_t different = 0;
  for (size_t i = 0; i < cases.size(); i++) {
    const auto it = recorded.find(cases[i].name);
    if (it != recorded.end() && it->second == r.line[i]) continue;
    different++;
    printf("%s\n  recorded %s\n  here     %s\n", cases[i].name.c_str(), it == recorded.end() ? "nothing" : it->second.substr(0, 300).c_str(), Text(r.line[i]).substr(0, 300).c_str());
  }
  printf("%zu cases, %zu differ\n", cases.size(), different);
  return different ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Text mode = argc > 1 ? argv[1] : "";
  add_mbarriers(), add_bulk(), add_clusters(), add_tensors(), add_words();
  if (mode == "list") {
    for (const Case& c : cases) printf("// %s\n%s", c.name.c_str(), module_of(c).c_str());
    return 0;
  }
  if (argc < 3 || (mode != "record" && mode != "check")) return fprintf(stderr, "usage: edges record FILE [PREFIX...] | edges check FILE [PREFIX...] | edges list\n"), 2;
  if (argc > 3)
    std::erase_if(cases, [&](const Case& c) { return std::none_of(argv + 3, argv + argc, [&](const char* p) { return c.name.compare(0, strlen(p), p) == 0; }); });
  Results& results = *static_cast<Results*>(mmap(nullptr, sizeof(Results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  run_all(results);
  if (mode == "check") return check(argv[2], results);
  FILE* f = fopen(argv[2], "w");
  if (!f) return perror(argv[2]), 2;
  for (size_t i = 0; i < cases.size(); i++) fprintf(f, "%s | %s\n", cases[i].name.c_str(), results.line[i]);
  fclose(f);
  printf("%zu cases\n", cases.size());
  return 0;
}
