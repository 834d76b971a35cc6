// recorder: runs every form of the .forms files on a GPU and keeps what came out.
//
//   recorder emit FORMS... --out DIR          writes DIR/NNN.ptx, a hundred kernels a module (assemble with ptxas)
//   recorder run FORMS... --cubins DIR --out DIR [--raw N]   runs DIR/NNN.cubin through libcuda, writes NAME.vectors
//                                             (hashes, small) and NAME.raw.zst (the first N items of every form)
//   recorder dense --cubins DIR --out DIR     every value of whole binades through the approximate functions
//
// One thread is one item. Kernel parameters: inputs, outputs (arrays of 8-byte slots, one per operand, b128 two), items.
// Only libcuda is needed where it runs; it is opened at run time.
#include <dlfcn.h>
#include <zstd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "../forms.h"

using namespace vectors;

static std::string replaced(std::string t, const std::string& from, const std::string& to) {
  for (size_t i = 0; (i = t.find(from, i)) != std::string::npos; i += to.size()) t.replace(i, from.size(), to);
  return t;
}
static int slots(const std::vector<Operand>& ops) {
  int n = 0;
  for (auto& o : ops) n += o.reg == Reg::r128 ? 2 : 1;
  return n;
}
static bool role_in(const std::vector<Operand>& ops, char role) {
  for (auto& o : ops)
    if (o.role == role) return true;
  return false;
}
static int count_role(const std::vector<Operand>& ops, char role) {
  int n = 0;
  for (auto& o : ops) n += o.role == role;
  return n;
}
static bool is_wgmma(const VectorForm& f) { return f.text.rfind("wgmma", 0) == 0; }
static uint32_t block_of(const VectorForm& f) { return is_wgmma(f) ? 128 : role_in(f.s, 'M') ? 32 : 256; }

static const char* suffix(Reg r) { return r == Reg::r16 ? "b16" : r == Reg::r64 || r == Reg::r128 ? "b64" : "b32"; }

// -- PTX

struct Body {
  std::string text;
  void line(const std::string& l) { text += "  " + l + "\n"; }
};
static std::string vec_of(const std::vector<Operand>& ops, char role, char letter) {
  std::string v = "{";
  for (size_t i = 0; i < ops.size(); i++)
    if (ops[i].role == role) v += (v.size() > 1 ? "," : "") + ("%" + (letter + std::to_string(i)));
  return v + "}";
}
static void declare(Body& b, const std::vector<Operand>& ops, char letter) {
  for (size_t i = 0; i < ops.size(); i++) {
    const std::string n = letter + std::to_string(i);
    switch (ops[i].reg) {
      case Reg::imm: break;
      case Reg::pred: b.line(".reg .pred %" + n + "; .reg .b32 %w" + n + ";"); break;
      case Reg::r128: b.line(".reg .b128 %" + n + "; .reg .b64 %lo" + n + ", %hi" + n + ";"); break;
      default: b.line(".reg ." + std::string(suffix(ops[i].reg)) + " %" + n + ";");
    }
  }
}
static void load_sources(Body& b, const VectorForm& f) {
  int slot = 0;
  for (size_t j = 0; j < f.s.size(); j++, slot++) {
    const std::string n = std::to_string(j);
    b.line("mad.lo.u64 %at, %n8, " + std::to_string(slot) + ", %in;");
    switch (f.s[j].reg) {
      case Reg::imm: break;
      case Reg::pred: b.line("ld.global.b32 %ws" + n + ", [%at]; setp.ne.b32 %s" + n + ", %ws" + n + ", 0;"); break;
      case Reg::r128:
        b.line("ld.global.b64 %los" + n + ", [%at]; mad.lo.u64 %at, %n8, " + std::to_string(++slot) + ", %in; ld.global.b64 %his" + n + ", [%at];");
        b.line("mov.b128 %s" + n + ", {%los" + n + ", %his" + n + "};");
        break;
      default: b.line("ld.global." + std::string(suffix(f.s[j].reg)) + " %s" + n + ", [%at];");
    }
    if (f.s[j].role == 'M') b.line("st.shared.b32 [%smt+" + std::to_string(4 * block_of(f) * j) + "], %s" + n + ";");
  }
}
static void store_dests(Body& b, const VectorForm& f) {
  int slot = 0;
  for (size_t j = 0; j < f.d.size(); j++, slot++) {
    const std::string n = std::to_string(j);
    b.line("mad.lo.u64 %at, %n8, " + std::to_string(slot) + ", %out;");
    if (f.d[j].role == 'M') b.line("ld.shared.b32 %d" + n + ", [%smt+" + std::to_string(4 * block_of(f) * j) + "];");
    switch (f.d[j].reg) {
      case Reg::pred: b.line("selp.b32 %wd" + n + ", 1, 0, %d" + n + "; st.global.b32 [%at], %wd" + n + ";"); break;
      case Reg::r128:
        b.line("mov.b128 {%lod" + n + ", %hid" + n + "}, %d" + n + "; st.global.b64 [%at], %lod" + n + ";");
        b.line("mad.lo.u64 %at, %n8, " + std::to_string(++slot) + ", %out; st.global.b64 [%at], %hid" + n + ";");
        break;
      default: b.line("st.global." + std::string(suffix(f.d[j].reg)) + " [%at], %d" + n + ";");
    }
  }
}
static std::string registers_named(const std::string& operands) {
  std::string t;
  for (size_t i = 0; i < operands.size(); i++) {
    const bool start = i == 0 || !(isalnum(operands[i - 1]) || operands[i - 1] == '%' || operands[i - 1] == '.');
    if (start && (operands[i] == 'd' || operands[i] == 's') && i + 1 < operands.size() && isdigit(operands[i + 1])) t += '%';
    t += operands[i];
  }
  return t;
}
static void emit_plain(Body& b, const VectorForm& f) {
  const bool minus = f.text.rfind("sub", 0) == 0;
  for (size_t j = 0; j < f.s.size(); j++)
    if (f.s[j].reg == Reg::carry)
      b.line(minus ? "sub.cc.u32 %t, 0, %s" + std::to_string(j) + ";" : "add.cc.u32 %t, %s" + std::to_string(j) + ", 0xffffffff;");
  std::string ops = registers_named(f.operands);
  if (role_in(f.d, 'M') || role_in(f.s, 'M')) {
    ops = replaced(ops, "uadr", "%adr");
    ops = replaced(ops, "sm]", "%sm]");
    if (ops[0] == 'D') ops = vec_of(f.d, 'D', 'd') + ops.substr(1);
    ops = replaced(ops, ", A", ", " + vec_of(f.s, 'A', 's'));
  }
  b.line(f.text + " " + ops + ";");
  for (size_t j = 0; j < f.d.size(); j++)
    if (f.d[j].reg == Reg::carry) {
      b.line(std::string(minus ? "subc" : "addc") + ".u32 %d" + std::to_string(j) + ", 0, 0;");
      b.line("and.b32 %d" + std::to_string(j) + ", %d" + std::to_string(j) + ", 1;");
    }
}
static void emit_wgmma(Body& b, const VectorForm& f) {
  int imm = 0;
  std::string desc[2], meta;
  size_t c = 0;
  for (size_t j = 0; j < f.s.size(); j++) {
    if (f.s[j].reg == Reg::imm) desc[imm++] = f.s[j].kind.substr(1);
    if (f.s[j].role == 'E') meta = "%s" + std::to_string(j);
    if (f.s[j].role == 'C') b.line("mov.b32 %d" + std::to_string(c++) + ", %s" + std::to_string(j) + ";");
  }
  b.line("fence.proxy.async; bar.sync 0;");
  b.line("cvt.u64.u32 %at, %sm; shr.u64 %at, %at, 4; add.u64 %da, %at, " + desc[0] + "; add.u64 %db, %at, " + desc[1] + ";");
  std::string ops = f.operands;  // D, da|A, db, [E, id,] scale-d, ...
  std::vector<std::string> w;
  std::stringstream in(ops);
  for (std::string x; std::getline(in, x, ',');) w.push_back(trim(x));
  size_t k = 3;
  std::string out = vec_of(f.d, 'D', 'd') + ", " + (w[1] == "A" ? vec_of(f.s, 'A', 's') : "%da") + ", %db";
  if (w[3] == "E") out += ", " + meta + ", " + w[4], k = 5;
  b.line("setp.ne.b32 %p, " + w[k] + ", 0;");
  out += ", %p";
  for (k++; k < w.size(); k++) out += ", " + w[k];
  b.line("wgmma.fence.sync.aligned;");
  b.line(f.text + " " + out + ";");
  b.line("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
}
static std::string kernel(const VectorForm& f, int number) {
  Body b;
  b.text = ".visible .entry k" + std::to_string(number) + "(.param .u64 in, .param .u64 out, .param .u64 n) {\n";
  b.line(".reg .b64 %in, %out, %n8, %i, %at, %da, %db; .reg .b32 %x, %y, %z, %t, %sm, %smt, %adr; .reg .pred %p;");
  declare(b, f.s, 's');
  declare(b, f.d, 'd');
  const int words = count_role(f.s, 'M');
  if (words) b.line(".shared .align 1024 .b8 image[" + std::to_string(4 * words * int(block_of(f))) + "];");
  b.line("ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %n8, [n]; shl.b64 %n8, %n8, 3;");
  b.line("mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x; mov.u32 %z, %tid.x; mad.lo.u32 %x, %x, %y, %z; mul.wide.u32 %i, %x, 8;");
  b.line("add.u64 %in, %in, %i; add.u64 %out, %out, %i;");
  if (words) b.line("mov.u32 %sm, image; shl.b32 %smt, %z, 2; add.u32 %smt, %smt, %sm; mul.lo.u32 %adr, %z, 5; add.u32 %adr, %adr, 3; and.b32 %adr, %adr, 31; shl.b32 %adr, %adr, 4; add.u32 %adr, %adr, %sm;");
  load_sources(b, f);
  if (words) b.line("bar.sync 0;");
  if (is_wgmma(f)) emit_wgmma(b, f);
  else emit_plain(b, f);
  if (words) b.line("bar.sync 0;");
  store_dests(b, f);
  b.text += "  ret;\n}\n";
  return b.text;
}

static const char* kHeader = ".version 9.0\n.target sm_90a\n.address_size 64\n";
constexpr int kPerModule = 100;
static std::string module_name(size_t k) {
  char t[24];
  snprintf(t, sizeof t, "%03zu", k);
  return t;
}
static void write_file(const std::string& path, const std::string& data) {
  std::ofstream(path, std::ios::binary).write(data.data(), std::streamsize(data.size()));
}

// Whole binades through the approximate functions: out[i] = op(first + i * step), as bit patterns.
struct Dense { const char* name; const char* op; uint32_t first, count, step; };
static const Dense kDense[] = {
    {"rcp", "rcp.approx.f32", 0x3f800000, 1u << 23, 1}, {"rsqrt", "rsqrt.approx.f32", 0x3f800000, 1u << 24, 1},
    {"sqrt", "sqrt.approx.f32", 0x3f800000, 1u << 22, 4}, {"lg2a", "lg2.approx.f32", 0x3f800000, 1u << 23, 1},
    {"lg2b", "lg2.approx.f32", 0x3f000000, 1u << 23, 1}, {"lg2c", "lg2.approx.f32", 0x42800000, 1u << 21, 4},
    {"ex2a", "ex2.approx.ftz.f32", 0x3f800000, 1u << 23, 1}, {"ex2b", "ex2.approx.ftz.f32", 0x3f000000, 1u << 21, 4},
    {"ex2c", "ex2.approx.ftz.f32", 0xbf800000, 1u << 21, 4}, {"ex2d", "ex2.approx.ftz.f32", 0x39000000, 1u << 20, 64},
    {"ex2e", "ex2.approx.ftz.f32", 0xb9000000, 1u << 20, 64}, {"ex2f", "ex2.approx.ftz.f32", 0x40000000, 1u << 20, 32},
    {"sina", "sin.approx.ftz.f32", 0x40000000, 1u << 23, 1}, {"sinb", "sin.approx.ftz.f32", 0x3f800000, 1u << 21, 4},
    {"sinc", "sin.approx.ftz.f32", 0x40800000, 1u << 21, 4}, {"sind", "sin.approx.ftz.f32", 0x38000000, 1u << 21, 64},
    {"cosa", "cos.approx.ftz.f32", 0x40000000, 1u << 23, 1}, {"cosb", "cos.approx.ftz.f32", 0x3f800000, 1u << 21, 4},
    {"cosd", "cos.approx.ftz.f32", 0x38000000, 1u << 20, 128}, {"sine", "sin.approx.ftz.f32", 0x41000000, 1u << 20, 128},
    {"tanha", "tanh.approx.f32", 0x39000000, 1u << 22, 32}, {"tanhb", "tanh.approx.f32", 0x3f000000, 1u << 22, 8},
    {"rcpd", "rcp.approx.ftz.f64", 0x3ff00000, 1u << 20, 1}, {"rsqrtd", "rsqrt.approx.ftz.f64", 0x3ff00000, 1u << 21, 1},
};
static std::string dense_kernel(const Dense& k) {
  const bool wide = strstr(k.op, "f64");
  std::string b = ".visible .entry " + std::string(k.name) + "(.param .u64 out, .param .u32 first, .param .u32 step) {\n"
    "  .reg .b64 %o, %i, %v; .reg .b32 %x, %y, %z, %f, %s, %lo;\n  ld.param.u64 %o, [out]; ld.param.u32 %f, [first]; ld.param.u32 %s, [step];\n"
    "  mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x; mov.u32 %z, %tid.x; mad.lo.u32 %x, %x, %y, %z; mul.wide.u32 %i, %x, 4; add.u64 %o, %o, %i;\n"
    "  mad.lo.u32 %f, %x, %s, %f;\n";
  if (wide) b += "  mov.b32 %lo, 0; mov.b64 %v, {%lo, %f}; " + std::string(k.op) + " %v, %v; mov.b64 {%lo, %f}, %v;\n";
  else b += "  " + std::string(k.op) + " %f, %f;\n";
  return b + "  st.global.b32 [%o], %f;\n  ret;\n}\n";
}

static int emit(const std::vector<std::string>& files, const std::string& out) {
  for (auto& file : files) {
    const auto forms = read_forms(file);
    const std::string stem = file.substr(file.rfind('/') + 1, file.rfind('.') - file.rfind('/') - 1);
    for (size_t k = 0; k * kPerModule < forms.size(); k++) {
      std::string text = kHeader;
      for (size_t i = k * kPerModule; i < std::min(forms.size(), (k + 1) * kPerModule); i++)
        text += "// " + forms[i].key() + "\n" + kernel(forms[i], int(i));
      write_file(out + "/" + stem + module_name(k) + ".ptx", text);
    }
    printf("%s: %zu forms\n", stem.c_str(), forms.size());
  }
  std::string text = kHeader;
  for (auto& k : kDense) text += dense_kernel(k);
  write_file(out + "/dense.ptx", text);
  return 0;
}

// -- running, through the driver API

using Ptr = unsigned long long;
static struct Driver {
  int (*init)(unsigned), (*device_get)(int*, int), (*ctx_create)(void**, unsigned, int), (*load)(void**, const void*),
      (*get_function)(void**, void*, const char*), (*alloc)(Ptr*, size_t), (*to_device)(Ptr, const void*, size_t),
      (*from_device)(void*, Ptr, size_t), (*set8)(Ptr, unsigned char, size_t), (*sync)(), (*name)(char*, int, int), (*version)(int*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
} cu;
static void check(int rc, const char* what) {
  if (rc) throw std::runtime_error(std::string(what) + ": CUDA error " + std::to_string(rc));
}
static void open_driver() {
  void* lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) throw std::runtime_error("libcuda.so.1 not found");
  auto sym = [&](auto& f, const char* n) { f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(lib, n)); };
  sym(cu.init, "cuInit"); sym(cu.device_get, "cuDeviceGet"); sym(cu.load, "cuModuleLoadData");
  sym(cu.get_function, "cuModuleGetFunction"); sym(cu.alloc, "cuMemAlloc_v2"); sym(cu.to_device, "cuMemcpyHtoD_v2");
  sym(cu.from_device, "cuMemcpyDtoH_v2"); sym(cu.set8, "cuMemsetD8_v2"); sym(cu.sync, "cuCtxSynchronize");
  sym(cu.name, "cuDeviceGetName"); sym(cu.version, "cuDriverGetVersion"); sym(cu.launch, "cuLaunchKernel");
  sym(cu.ctx_create, "cuCtxCreate_v2");
  void* ctx;
  int dev, version;
  char name[100];
  check(cu.init(0), "cuInit");
  check(cu.device_get(&dev, 0), "cuDeviceGet");
  check(cu.ctx_create(&ctx, 0, dev), "cuCtxCreate");
  cu.name(name, 100, dev);
  cu.version(&version);
  printf("%s, CUDA driver %d\n", name, version);
}
static std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
static void parallel(size_t n, const std::function<void(size_t, size_t)>& f) {
  const size_t threads = std::max(1u, std::thread::hardware_concurrency()), step = (n / threads + 31) / 32 * 32 + 32;
  std::vector<std::thread> all;
  for (size_t a = 0; a < n; a += step) all.emplace_back(f, a, std::min(n, a + step));
  for (auto& t : all) t.join();
}
static void write_zst(const std::string& path, const std::string& data, int level) {
  std::string z(ZSTD_compressBound(data.size()), 0);
  ZSTD_CCtx* c = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(c, ZSTD_c_nbWorkers, 16);
  z.resize(ZSTD_compress2(c, z.data(), z.size(), data.data(), data.size()));
  ZSTD_freeCCtx(c);
  write_file(path, z);
  printf("%s: %zu bytes\n", path.c_str(), z.size());
}

static Ptr g_in, g_out;
constexpr size_t kMaxIn = size_t(1) << 30, kMaxOut = size_t(1) << 30;

static void run_form(const VectorForm& f, void* fn, uint32_t items, uint32_t chunk, size_t raw_items, std::string& vec, std::string& raw) {
  const int ns = slots(f.s), nd = slots(f.d);
  std::vector<uint64_t> in(size_t(ns) * items), out(size_t(nd) * items);
  const uint64_t seed = hash_text(f.key());
  parallel(items, [&](size_t a, size_t b) {
    uint64_t v[256][2];
    for (size_t i = a; i < b; i++) {
      inputs_of(f, seed, uint32_t(i), v);
      for (size_t j = 0, slot = 0; j < f.s.size(); j++, slot++) {
        in[slot * items + i] = v[j][0];
        if (f.s[j].reg == Reg::r128) in[++slot * items + i] = v[j][1];
      }
    }
  });
  check(cu.to_device(g_in, in.data(), in.size() * 8), "copy in");
  check(cu.set8(g_out, 0, out.size() * 8), "clear");
  uint64_t n = items;
  void* args[3] = {&g_in, &g_out, &n};
  const uint32_t block = block_of(f);
  check(cu.launch(fn, items / block, 1, 1, block, 1, 1, 0, nullptr, args, nullptr), "launch");
  check(cu.sync(), "kernel");
  check(cu.from_device(out.data(), g_out, out.size() * 8), "copy out");
  std::vector<uint64_t> hashes(items / chunk);
  parallel(hashes.size() * 32, [&](size_t a, size_t b) {  // (parallel() cuts at multiples of 32)
    for (size_t c = a / 32; c < b / 32; c++) {
      uint64_t h = c;
      for (size_t k = 0; k < size_t(nd); k++)
        for (size_t i = c * chunk; i < (c + 1) * chunk; i++) h = fold(h, out[k * items + i]);
      hashes[c] = h;
    }
  });
  const std::string key = f.key();
  const uint32_t head[3] = {uint32_t(key.size()), uint32_t(hashes.size()), uint32_t(nd)};
  vec.append(reinterpret_cast<const char*>(head), 12);
  vec += key;
  vec.append(reinterpret_cast<const char*>(hashes.data()), hashes.size() * 8);
  const bool exhaustive = items == kItems && f.s.size() == 1 && (f.s[0].reg == Reg::r16 || f.s[0].kind == "f16x2" || f.s[0].kind == "bf16x2");
  const size_t keep = exhaustive ? items : raw_items;
  for (int k = 0, slot = 0; k < int(f.d.size()); k++, slot++) {
    const int bytes = bytes_of(f.d[size_t(k)].reg);
    for (size_t i = 0; i < keep; i++) {
      raw.append(reinterpret_cast<const char*>(&out[size_t(slot) * items + i]), size_t(std::min(bytes, 8)));
      if (bytes == 16) raw.append(reinterpret_cast<const char*>(&out[size_t(slot + 1) * items + i]), 8);
    }
    if (bytes == 16) slot++;
  }
}

static int run(const std::vector<std::string>& files, const std::string& cubins, const std::string& out, size_t raw_items) {
  open_driver();
  check(cu.alloc(&g_in, kMaxIn), "alloc");
  check(cu.alloc(&g_out, kMaxOut), "alloc");
  for (auto& file : files) {
    const auto t0 = std::chrono::steady_clock::now();
    const auto forms = read_forms(file);
    const std::string stem = file.substr(file.rfind('/') + 1, file.rfind('.') - file.rfind('/') - 1);
    const bool pure = stem == "pure";
    const SetSize size = size_of_set(file);
    std::string vec, raw;
    void* module = nullptr;
    for (size_t i = 0; i < forms.size(); i++) try {
      if (i % kPerModule == 0) check(cu.load(&module, read_file(cubins + "/" + stem + module_name(i / kPerModule) + ".cubin").c_str()), "module");
      void* fn;
      check(cu.get_function(&fn, module, ("k" + std::to_string(i)).c_str()), forms[i].text.c_str());
      run_form(forms[i], fn, size.items, size.chunk, pure ? raw_items : raw_items / 4 / 128 * 128, vec, raw);
    } catch (const std::exception& e) {  // after a fault the context is lost: keep what there is
      printf("%s: %s\n", forms[i].key().c_str(), e.what());
      break;
    }
    write_zst(out + "/" + stem + ".vectors.zst", vec, 12);
    if (pure) {
      for (size_t k = 0, part = raw.size() / 3 + 1; k < 3; k++) write_zst(out + "/pure.raw" + std::to_string(k) + ".zst", raw.substr(k * part, part), 12);
    } else {
      write_zst(out + "/" + stem + ".raw.zst", raw, 12);
    }
    printf("%s: %zu forms, %.1f s\n", stem.c_str(), forms.size(), std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count());
  }
  return 0;
}

static int dense(const std::string& cubins, const std::string& out) {
  if (!cu.init) open_driver();
  if (!g_out) check(cu.alloc(&g_out, kMaxOut), "alloc");
  void* module;
  check(cu.load(&module, read_file(cubins + "/dense.cubin").c_str()), "module");
  std::string all[3];
  for (auto& k : kDense) {
    void* fn;
    check(cu.get_function(&fn, module, k.name), k.name);
    uint32_t first = k.first, step = k.step;
    void* args[3] = {&g_out, &first, &step};
    check(cu.launch(fn, k.count / 256, 1, 1, 256, 1, 1, 0, nullptr, args, nullptr), "launch");
    check(cu.sync(), k.name);
    std::vector<uint32_t> v(k.count);
    check(cu.from_device(v.data(), g_out, v.size() * 4), "copy out");
    // differences as byte planes: near zero, so they compress to a few bits
    std::vector<uint32_t> e(v.size());
    for (size_t i = 0; i < v.size(); i++) {
      const uint32_t a = i > 0 ? v[i - 1] : 0;
      const int32_t diff = int32_t(v[i] - a);
      e[i] = uint32_t(diff << 1) ^ uint32_t(diff >> 31);
    }
    std::string& to = all[k.name[0] == 'r' || k.name[1] == 'q' ? 0 : k.name[0] == 'l' || k.name[0] == 'e' || k.name[0] == 't' ? 1 : 2];
    for (int b = 0; b < 4; b++)
      for (uint32_t x : e) to += char(x >> (8 * b));
  }
  write_zst(out + "/dense0.zst", all[0], 9);
  write_zst(out + "/dense1.zst", all[1], 9);
  write_zst(out + "/dense2.zst", all[2], 9);
  return 0;
}

int main(int argc, char** argv) try {
  std::vector<std::string> files;
  std::string mode = argc > 1 ? argv[1] : "", out = ".", cubins = ".";
  size_t raw = 4096;
  bool with_dense = false;
  for (int i = 2; i < argc; i++) {
    const std::string a = argv[i];
    if (a == "--out") out = argv[++i];
    else if (a == "--cubins") cubins = argv[++i];
    else if (a == "--raw") raw = std::stoul(argv[++i]);
    else if (a == "--dense") with_dense = true;
    else files.push_back(a);
  }
  if (mode == "emit") return emit(files, out);
  if (mode == "run") {
    int rc = run(files, cubins, out, raw);
    return rc ? rc : with_dense ? dense(cubins, out) : 0;
  }
  if (mode == "dense") return dense(cubins, out);
  fprintf(stderr, "usage: recorder emit|run|dense FORMS... [--cubins DIR] [--out DIR] [--raw N]\n");
  return 2;
} catch (const std::exception& e) {
  fprintf(stderr, "recorder: %s\n", e.what());
  return 1;
}
