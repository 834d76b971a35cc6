// boxes: thousands of random tensor maps and copies through libcuda, a hash of each result. The same program records on a
// GPU and compares a simulated one with what was recorded.
//
//   boxes record FILE [CASES]     writes a word per case
//   boxes check FILE [DUMP]       runs the cases again; exit status 1 when any word differs. DUMP gets what the first
//                                 hundred cases that differ left in memory: u32 case, u32 bytes, the bytes
//
// A case is a tensor map of any type, rank, interleave, swizzle, fill and element strides (some of them wrong, to see what
// the driver says), then a load, a store or a reduction with coordinates inside, outside and across the tensor's edges.
// A load's word is the hash of shared memory (0xEE before), a store's that of the tensor's memory with a margin. Waiting
// is bounded, so a wrong count of bytes shows as a word of its own. Only libcuda is needed; it is opened at run time.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Ptr = unsigned long long;
using u32 = uint32_t;
using u64 = uint64_t;

struct Map {
  alignas(64) u64 words[16];
};

struct Driver {
  int (*init)(unsigned), (*device_get)(int*, int), (*ctx_create)(void**, unsigned, int), (*ctx_destroy)(void*), (*load)(void**, const void*),
      (*get_function)(void**, void*, const char*), (*alloc)(Ptr*, size_t), (*to_device)(Ptr, const void*, size_t), (*from_device)(void*, Ptr, size_t),
      (*sync)(), (*name)(char*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*tiled)(Map*, u32, u32, void*, const u64*, const u64*, const u32*, const u32*, u32, u32, u32, u32);
  int (*im2col)(Map*, u32, u32, void*, const u64*, const u64*, const int*, const int*, u32, u32, const u32*, u32, u32, u32, u32);
} cu;

void fail(const char* what, int rc) {
  fprintf(stderr, "boxes: %s: CUDA error %d\n", what, rc);
  exit(2);
}
void must(int rc, const char* what) {
  if (rc) fail(what, rc);
}

// -- kernels

constexpr u32 kImage = 40960;  // bytes of shared memory
const char* const kReductions[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};

std::string coordinates(int rank) {
  std::string c = "{";
  for (int i = 0; i < rank; i++) c += (i ? ", %c" : "%c") + std::to_string(i);
  return c + "}";
}
std::string begin(const std::string& name) {
  return ".visible .entry " + name + "(.param .align 64 .b8 map[128], .param .u64 mem, .param .u32 tx, .param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, "
         ".param .u32 c4, .param .u32 o0, .param .u32 o1, .param .u32 o2) {\n"
         "  .reg .b64 %m, %mem, %at; .reg .b32 %c<5>, %t<3>, %x, %i, %s, %bar, %tx, %v, %n; .reg .b16 %o<3>; .reg .pred %p, %q;\n"
         "  .shared .align 1024 .b8 image[" + std::to_string(kImage) + "]; .shared .align 8 .b64 ready;\n"
         "  mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %mem, [mem]; ld.param.u32 %tx, [tx];\n"
         "  ld.param.u32 %c0, [c0]; ld.param.u32 %c1, [c1]; ld.param.u32 %c2, [c2]; ld.param.u32 %c3, [c3]; ld.param.u32 %c4, [c4];\n"
         "  ld.param.u32 %t0, [o0]; ld.param.u32 %t1, [o1]; ld.param.u32 %t2, [o2]; cvt.u16.u32 %o0, %t0; cvt.u16.u32 %o1, %t1; cvt.u16.u32 %o2, %t2;\n"
         "  mov.u32 %x, %tid.x; mov.u32 %s, image; mov.u32 %bar, ready; setp.ne.u32 %q, %x, 0;\n";
}
/// Every word of shared memory with `body`, which sees %at (global) and %v's address [%t0].
std::string each_word(const std::string& label, const std::string& body) {
  return "  shl.b32 %i, %x, 2;\n" + label + ":\n  add.u32 %t0, %s, %i; cvt.u64.u32 %at, %i; add.u64 %at, %at, %mem;\n  " + body +
         "\n  add.u32 %i, %i, 512; setp.lt.u32 %p, %i, " + std::to_string(kImage) + "; @%p bra " + label + ";\n";
}
std::string load_kernel(const std::string& name, int rank, bool im2col) {
  std::string offsets = ", {";
  for (int i = 0; i + 2 < rank; i++) offsets += (i ? ", %o" : "%o") + std::to_string(i);
  return begin(name) + each_word("FILL", "st.shared.b32 [%t0], 0xEEEEEEEE;") +
         "  @%q bra READY;\n  mbarrier.init.shared.b64 [%bar], 1; fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %tx;\nREADY:\n  bar.sync 0;\n"
         "  @%q bra WAIT;\n  fence.proxy.async;\n  cp.async.bulk.tensor." + std::to_string(rank) + "d.shared::cluster.global." + (im2col ? "im2col" : "tile") +
         ".mbarrier::complete_tx::bytes [%s], [%m, " + coordinates(rank) + "], [%bar]" + (im2col ? offsets + "}" : "") + ";\n"
         "WAIT:\n  mov.u32 %n, 0;\nAGAIN:\n  mbarrier.test_wait.parity.shared.b64 %p, [%bar], 0;\n  @%p bra DONE;\n  add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 400000; @%p bra AGAIN;\n"
         "  st.shared.b32 [%s], 0xDEADDEAD;\nDONE:\n  bar.sync 0;\n" +
         each_word("DUMP", "ld.shared.b32 %v, [%t0]; st.global.b32 [%at], %v;") + "  ret;\n}\n";
}
std::string store_kernel(const std::string& name, int rank, const char* mode, const char* reduction) {
  const std::string op = reduction ? std::string("cp.reduce.async.bulk.tensor.") : "cp.async.bulk.tensor.";
  return begin(name) + each_word("FILL", "ld.global.b32 %v, [%at]; st.shared.b32 [%t0], %v;") + "  fence.proxy.async;\n  bar.sync 0;\n  @%q bra DONE;\n  " + op +
         std::to_string(rank) + "d.global.shared::cta" + (reduction ? std::string(".") + reduction : "") + "." + mode + ".bulk_group [%m, " + coordinates(rank) +
         "], [%s];\n  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nDONE:\n  ret;\n}\n";
}
std::string module_text() {
  std::string t = ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (int r = 1; r <= 5; r++) {
    const std::string n = std::to_string(r);
    t += load_kernel("load" + n, r, false) + store_kernel("store" + n, r, "tile", nullptr);
    for (const char* op : kReductions) t += store_kernel(std::string(op) + n, r, "tile", op);
    if (r >= 3) t += load_kernel("gather" + n, r, true) + store_kernel("scatter" + n, r, "im2col_no_offs", nullptr);
  }
  return t;
}

// -- cases

struct Rng {
  u64 s;
  u64 next() {
    u64 z = (s += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  int range(int lo, int hi) { return lo + int(next() % u64(hi - lo + 1)); }
  bool one_in(int n) { return next() % u64(n) == 0; }
};

constexpr size_t kTensorBytes = 1 << 20, kMargin = 256;
constexpr int kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

struct Case {
  bool im2col = false;
  u32 type = 0, rank = 1, interleave = 0, swizzle = 0, fill = 0, promotion = 0, channels = 0, pixels = 0;
  u64 dims[5] = {}, strides[4] = {};
  u32 box[5] = {}, steps[5] = {1, 1, 1, 1, 1};
  int lower[3] = {}, upper[3] = {}, at[5] = {};
  u32 offset[3] = {};
  int action = 0;  // 0 load, 1 store, 2 + n reduction n
  u64 extent = 0;  // bytes of the tensor
  int unit() const { return interleave ? int(interleave) * 16 : kElementBytes[type]; }
  u64 row() const { return u64(im2col ? channels : (box[0] + steps[0] - 1) / steps[0]) * u64(unit()); }
  u64 rows() const {
    if (im2col) return pixels;
    u64 n = 1;
    for (u32 i = 1; i < rank; i++)
      if (!interleave || i != rank - 2) n *= (box[i] + steps[i] - 1) / steps[i];
    return n;
  }
  u64 bytes() const { return row() * rows(); }
  u64 image() const { return std::max<u64>(row(), swizzle ? 16u << swizzle : 0) * rows(); }
};

/// Sizes and strides of a tensor of at most kTensorBytes; strides are sometimes wrong on purpose.
void choose_tensor(Case& c, Rng& r) {
  const int align = c.interleave == 2 ? 32 : 16;
  const u64 slice = u64(c.unit());
  u64 pitch = 0;
  for (u32 i = 0; i < c.rank; i++) {
    c.dims[i] = u64(r.range(1, i == 0 ? 90 : i == 1 ? 24 : 9));
    if (i == 0) {
      pitch = (c.dims[0] * slice + u64(align) - 1) / u64(align) * u64(align);
    } else {
      if (r.one_in(3)) pitch += u64(align) * u64(r.range(1, 3));
      c.strides[i - 1] = r.one_in(60) ? pitch + 8 : pitch;
      pitch *= c.dims[i];
    }
  }
  c.extent = pitch;
}
void choose_box(Case& c, Rng& r) {
  const int unit = c.unit(), per = std::max(1, 16 / unit);
  const int most = c.swizzle && !c.interleave ? (16 << c.swizzle) / unit : 96;
  for (u32 i = 0; i < c.rank; i++) {
    if (i == 0) c.box[0] = u32(c.interleave ? r.range(1, 4) : per * r.range(1, std::max(1, most / per)));
    else c.box[i] = u32(r.range(1, i == 1 ? 20 : 5));
    if (i > 0 || c.interleave) c.steps[i] = r.one_in(4) ? u32(r.range(1, 3)) : 1;
  }
  if (c.interleave) c.steps[0] = 1;
  if (r.one_in(60)) c.box[0] += 1;
  c.channels = u32(per * r.range(1, std::max(1, std::min(most, 64) / per)));
  c.pixels = u32(r.range(1, 60));
  for (u32 i = 0; i + 2 < c.rank; i++) c.lower[i] = r.range(-4, 2), c.upper[i] = r.range(-3, 3);
}
void choose_place(Case& c, Rng& r) {
  const int per = std::max(1, 16 / c.unit());
  const bool store = c.action != 0;
  c.at[0] = per * r.range(store ? 0 : -3, int(c.dims[0]) / per + 1);
  if (r.one_in(2)) c.at[0] = 0;
  for (u32 i = 1; i < c.rank; i++) {
    c.at[i] = r.range(store ? 0 : -4, int(c.dims[i]) + 1);
    if (c.im2col && i + 1 < c.rank) {  // inside the bounding box
      const int lo = c.lower[i - 1], hi = std::max(lo, int(c.dims[i]) - 1 + c.upper[i - 1]);
      c.at[i] = r.range(store ? std::max(lo, 0) : lo, std::max(hi, store ? std::max(lo, 0) : lo));
      c.offset[i - 1] = u32(r.range(0, 3));
    }
    if (c.im2col && i + 1 == c.rank) c.at[i] = r.range(0, int(c.dims[i]) - 1);
  }
}
/// Reductions that the type has.
bool reduces(u32 type, int op) {
  if (op == 0) return type != 8;
  if (op <= 2) return type == 2 || type == 3 || type == 4 || type == 5 || type == 6 || type == 9;
  if (op <= 4) return type == 2;
  return type == 2 || type == 3 || type == 4 || type == 5;
}
Case make_case(u32 index) {
  Rng r{index * 0x51ed27ull + 99};
  r.next();
  Case c;
  c.im2col = r.one_in(4);
  c.type = u32(r.range(0, 12));
  c.rank = u32(c.im2col ? r.range(3, 5) : r.range(1, 5));
  if (!c.im2col && c.rank >= 3 && r.one_in(6)) c.interleave = u32(r.range(1, 2));
  c.swizzle = c.interleave == 2 ? 1 : u32(r.range(0, 3));
  if (c.interleave == 1 && !r.one_in(4)) c.swizzle = 0;
  c.fill = r.one_in(3);
  c.promotion = u32(r.range(0, 3));
  choose_tensor(c, r);
  choose_box(c, r);
  c.action = r.one_in(2) ? 0 : r.one_in(2) || c.im2col || c.interleave ? 1 : 2 + r.range(0, 7);
  if (c.action >= 2 && !reduces(c.type, c.action - 2)) c.action = 1;
  choose_place(c, r);
  return c;
}

// -- running

struct Device {
  void *context = nullptr, *module = nullptr;
  Ptr tensor = 0, other = 0;
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kTensorBytes + 2 * kMargin), image = std::vector<uint8_t>(kImage);
  std::string text = module_text();

  void open() {
    int dev;
    must(cu.device_get(&dev, 0), "cuDeviceGet");
    must(cu.ctx_create(&context, 0, dev), "cuCtxCreate");
    must(cu.load(&module, text.c_str()), "cuModuleLoadData");
    must(cu.alloc(&tensor, bytes.size()), "cuMemAlloc");
    must(cu.alloc(&other, kImage), "cuMemAlloc");
    Rng r{7};
    for (auto* v : {&bytes, &image})
      for (size_t i = 0; i < v->size(); i += 8) {
        u64 x = r.next();
        memcpy(&(*v)[i], &x, 8);
      }
    restore();
  }
  void restore() {
    must(cu.to_device(tensor, bytes.data(), bytes.size()), "copy");
    must(cu.to_device(other, image.data(), image.size()), "copy");
  }
};

u32 hash(const uint8_t* p, size_t n) {
  u64 h = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3ull;
  return u32(h ^ h >> 32);
}

int encode(const Case& c, Map& m, Ptr tensor) {
  void* base = reinterpret_cast<void*>(tensor + kMargin);
  if (c.im2col)
    return cu.im2col(&m, c.type, c.rank, base, c.dims, c.strides, c.lower, c.upper, c.channels, c.pixels, c.steps, c.interleave, c.swizzle, c.promotion, c.fill);
  return cu.tiled(&m, c.type, c.rank, base, c.dims, c.strides, c.box, c.steps, c.interleave, c.swizzle, c.promotion, c.fill);
}

std::string kernel_name(const Case& c) {
  const char* name = c.im2col ? (c.action ? "scatter" : "gather") : c.action == 0 ? "load" : c.action == 1 ? "store" : kReductions[c.action - 2];
  return name + std::to_string(c.rank);
}

constexpr u32 kNotRun = 0xffff0000, kError = 0xfffe0000, kSkipped = 0xfffd0000;

u32 run_case(const Case& c, Device& d, std::vector<uint8_t>* kept = nullptr) {
  if (c.extent > kTensorBytes || c.image() > kImage || c.bytes() == 0) return kSkipped;
  Map m;
  if (const int rc = encode(c, m, d.tensor)) return kNotRun | u32(rc & 0xffff);
  void* f;
  must(cu.get_function(&f, d.module, kernel_name(c).c_str()), "cuModuleGetFunction");
  u32 tx = u32(c.bytes());
  void* args[] = {&m, &d.other, &tx, (void*)&c.at[0], (void*)&c.at[1], (void*)&c.at[2], (void*)&c.at[3], (void*)&c.at[4],
                  (void*)&c.offset[0], (void*)&c.offset[1], (void*)&c.offset[2]};
  int rc = cu.launch(f, 1, 1, 1, 128, 1, 1, 0, nullptr, args, nullptr);
  if (!rc) rc = cu.sync();
  if (rc) return kError | u32(rc & 0xffff);
  std::vector<uint8_t> out(c.action ? c.extent + 2 * kMargin : kImage);
  must(cu.from_device(out.data(), c.action ? d.tensor : d.other, out.size()), "copy");
  d.restore();
  if (kept) *kept = out;
  return hash(out.data(), out.size());
}

std::string describe(const Case& c) {
  std::string t = (c.im2col ? "im2col " : "tiled ") + kernel_name(c) + " type " + std::to_string(c.type) + " interleave " + std::to_string(c.interleave) +
                  " swizzle " + std::to_string(c.swizzle) + " fill " + std::to_string(c.fill) + " dims";
  for (u32 i = 0; i < c.rank; i++) t += " " + std::to_string(c.dims[i]);
  t += " strides";
  for (u32 i = 0; i + 1 < c.rank; i++) t += " " + std::to_string(c.strides[i]);
  t += c.im2col ? " channels " + std::to_string(c.channels) + " pixels " + std::to_string(c.pixels) : " box";
  for (u32 i = 0; i < c.rank && !c.im2col; i++) t += " " + std::to_string(c.box[i]);
  for (u32 i = 0; i + 2 < c.rank && c.im2col; i++)
    t += " (" + std::to_string(c.lower[i]) + ".." + std::to_string(c.upper[i]) + " +" + std::to_string(c.offset[i]) + ")";
  t += " steps";
  for (u32 i = 0; i < c.rank; i++) t += " " + std::to_string(c.steps[i]);
  t += " at";
  for (u32 i = 0; i < c.rank; i++) t += " " + std::to_string(c.at[i]);
  return t;
}

void open_driver() {
  void* lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) fail("libcuda.so.1 not found", 0);
  const auto sym = [&](auto& f, const char* n) { f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(lib, n)); };
  sym(cu.init, "cuInit"), sym(cu.device_get, "cuDeviceGet"), sym(cu.ctx_create, "cuCtxCreate_v2"), sym(cu.ctx_destroy, "cuCtxDestroy_v2");
  sym(cu.load, "cuModuleLoadData"), sym(cu.get_function, "cuModuleGetFunction"), sym(cu.alloc, "cuMemAlloc_v2");
  sym(cu.to_device, "cuMemcpyHtoD_v2"), sym(cu.from_device, "cuMemcpyDtoH_v2"), sym(cu.sync, "cuCtxSynchronize"), sym(cu.name, "cuDeviceGetName");
  sym(cu.launch, "cuLaunchKernel"), sym(cu.tiled, "cuTensorMapEncodeTiled"), sym(cu.im2col, "cuTensorMapEncodeIm2col");
  must(cu.init(0), "cuInit");
}

/// What the cases left behind: shared by the processes that run them.
struct Results {
  u32 next[64];  // case that a worker runs
  u32 word[1 << 16];
};

/// Runs every n-th case from the worker's number on, in a process of its own: after a fault CUDA is of no more use to a
/// process, so another goes on.
template <class Done>
void run_share(u32 cases, u32 worker, u32 workers, Results& r, Done done) {
  u32& next = r.next[worker];
  for (next = worker; next < cases;) {
    const pid_t child = fork();
    if (child) {
      int status = 0;
      waitpid(child, &status, 0);
      if (status) fail("a process that ran cases failed", status);
      continue;
    }
    open_driver();
    Device d;
    d.open();
    while (next < cases) {
      const u32 i = next;
      next += workers;
      std::vector<uint8_t> kept;
      r.word[i] = run_case(make_case(i), d, &kept);
      done(i, kept);
      if ((r.word[i] & 0xffff0000) == kError) break;
    }
    fflush(nullptr);
    _exit(0);
  }
}

/// Runs all cases; a process that starts takes a GPU longer than thousands of cases, so several share them.
template <class Done>
void run_cases(u32 cases, Results& r, Done done) {
  const u32 workers = std::clamp(u32(sysconf(_SC_NPROCESSORS_ONLN)), 1u, 12u);
  fflush(nullptr);
  for (u32 w = 0; w < workers; w++)
    if (fork() == 0) run_share(cases, w, workers, r, done), _exit(0);
  int status, bad = 0;
  while (wait(&status) > 0) bad |= status;
  if (bad) fail("a process that ran cases failed", bad);
}

int record(const char* file, u32 cases, Results& r) {
  run_cases(cases, r, [](u32, const std::vector<uint8_t>&) {});
  FILE* f = fopen(file, "w");
  if (!f) return perror(file), 2;
  u32 ran = 0, refused = 0, faults = 0;
  for (u32 i = 0; i < cases; i++) {
    const u32 kind = r.word[i] & 0xffff0000;
    ran += kind != kNotRun && kind != kError && kind != kSkipped;
    refused += kind == kNotRun, faults += kind == kError;
    fprintf(f, "%08x\n", r.word[i]);
  }
  fclose(f);
  printf("%u cases: %u ran, %u refused by the driver, %u ended in a fault\n", cases, ran, refused, faults);
  return 0;
}

int check(const char* file, const char* dump, Results& r) {
  FILE *f = fopen(file, "r"), *raw = dump ? fopen(dump, "wb") : nullptr;
  if (!f) return perror(file), 2;
  std::vector<u32> recorded;
  for (u32 w; fscanf(f, "%x", &w) == 1;) recorded.push_back(w);
  fclose(f);
  u32 kept_cases = 0;
  run_cases(u32(recorded.size()), r, [&](u32 i, const std::vector<uint8_t>& kept) {
    if (!raw || kept.empty() || r.word[i] == recorded[i] || kept_cases++ >= 100) return;
    const u32 head[2] = {i, u32(kept.size())};
    fwrite(head, 1, 8, raw), fwrite(kept.data(), 1, kept.size(), raw);
  });
  if (raw) fclose(raw);
  u32 different = 0;
  for (u32 i = 0; i < recorded.size(); i++) {
    if (r.word[i] == recorded[i]) continue;
    if (different++ < 10 || raw) printf("case %u: recorded %08x, here %08x: %s\n", i, recorded[i], r.word[i], describe(make_case(i)).c_str());
  }
  printf("%zu cases, %u differ\n", recorded.size(), different);
  return different || recorded.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode != "record" && mode != "check") return fprintf(stderr, "usage: boxes record FILE [CASES] | boxes check FILE [DUMP]\n"), 2;
  Results& results = *static_cast<Results*>(mmap(nullptr, sizeof(Results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (mode == "record") return record(argv[2], argc > 3 ? u32(atoi(argv[3])) : 4000, results);
  return check(argv[2], argc > 3 ? argv[3] : nullptr, results);
}
