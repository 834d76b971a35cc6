// check_tensor: runs every recorded tensor-core form through sem/ and compares all outputs, by hash, with the hardware's.
//
//   check_tensor FORMS VECTORS [--match TEXT] [--chunks N] [--raw FILE] [--show N]
//
// --chunks N compares the first N chunks of items (threads; forms.h says how many) of every form only. Exit status 1 on a difference.
#include <cinttypes>
#include <cstring>

#include "forms.h"
#include "isa/row.h"
#include "sem/tensor.h"
#include "vector_file.h"

using namespace vectors;
namespace sem = orrery::sem;
using orrery::isa::Form;
using orrery::isa::Op;

namespace {

struct Register {
  alignas(64) uint64_t words[32];
  uint32_t* w32() { return reinterpret_cast<uint32_t*>(words); }
};

int lanes_of(const VectorForm& f) { return f.text.rfind("wgmma", 0) == 0 ? 128 : 32; }
int count_role(const std::vector<Operand>& ops, char role) {
  int n = 0;
  for (auto& o : ops) n += o.role == role;
  return n;
}
void set(Register& r, Reg kind, int lane, uint64_t v) {
  if (kind == Reg::r64) r.words[lane] = v;
  else r.w32()[lane] = uint32_t(v);
}
uint64_t at(Register& r, Reg kind, int lane) { return kind == Reg::r64 ? r.words[lane] : r.w32()[lane]; }

// The operands of one group of lanes: registers per source, an image of shared memory.
struct Group {
  std::vector<std::vector<Register>> s, d;  // [warp][operand]
  std::vector<uint8_t> image;
};

std::vector<std::string> words_of(const std::string& operands) {
  std::vector<std::string> w;
  std::stringstream in(operands);
  for (std::string x; std::getline(in, x, ',');) w.push_back(trim(x));
  return w;
}

bool run_wgmma(const VectorForm& f, const Form& form, Group& g) {
  const auto w = words_of(f.operands);
  size_t k = 3;
  sem::WgmmaOperands o;
  std::vector<uint64_t> imm;
  for (auto& x : f.s)
    if (x.reg == Reg::imm) imm.push_back(x.imm);
  o.a_desc = imm[0], o.b_desc = imm[1];
  const bool sparse = w[3] == "E";
  if (sparse) o.selector = stoi(w[4]), k = 5;
  o.keep = stoi(w[k++]) != 0;
  const bool registers = w[1] == "A";
  std::vector<int> rest;
  for (; k < w.size(); k++) rest.push_back(stoi(w[k]));
  if (rest.size() >= 2) o.scale_a = rest[0], o.scale_b = rest[1];
  if (rest.size() == 4) o.trans_a = rest[2], o.trans_b = rest[3];
  if (rest.size() == 3) o.trans_b = rest[2];
  o.shared = g.image.data();
  o.shared_bytes = uint32_t(g.image.size());
  for (int warp = 0; warp < 4; warp++) {
    std::vector<const void*> a;
    std::vector<void*> d;
    size_t c = 0;
    for (size_t j = 0; j < f.s.size(); j++) {
      if (f.s[j].role == 'A') a.push_back(&g.s[warp][j]);
      if (f.s[j].role == 'E') o.metadata = &g.s[warp][j];
      if (f.s[j].role == 'C') g.d[warp][c++] = g.s[warp][j];
    }
    for (auto& x : g.d[warp]) d.push_back(&x);
    o.warp = warp;
    o.a = registers ? a.data() : nullptr;
    if (!sem::run_wgmma(form, d.data(), o, {})) return false;
  }
  return true;
}

bool run_form(const VectorForm& f, const Form& form, Group& g) {
  if (form.op == Op::wgmma_mma_async || form.op == Op::wgmma_mma_async_sp) return run_wgmma(f, form, g);
  std::vector<void*> d;
  std::vector<const void*> s;
  for (size_t j = 0; j < f.d.size(); j++)
    if (f.d[j].role != 'M') d.push_back(&g.d[0][j]);
  for (size_t j = 0; j < f.s.size(); j++)
    if (f.s[j].role != 'M' && f.s[j].kind != "uadr") s.push_back(&g.s[0][j]);
  const uint8_t* rows[32];
  uint8_t* out_rows[32];
  for (uint32_t l = 0; l < 32 && g.image.size() >= 512; l++) rows[l] = out_rows[l] = g.image.data() + (l * 5 + 3) % 32 * 16;
  const uint32_t stride = f.operands.find("[sm]") != std::string::npos ? uint32_t(stoul(f.operands.substr(f.operands.rfind(' ')))) : 0;
  switch (form.op) {
    case Op::movmatrix: sem::run_movmatrix(d[0], s[0]); return true;
    case Op::ldmatrix: sem::run_ldmatrix(form, d.data(), rows); return true;
    case Op::stmatrix: sem::run_stmatrix(form, s.data(), out_rows); return true;
    case Op::wmma_load: sem::run_wmma_load(form, d.data(), g.image.data(), stride); return sem::wmma_extent(form, stride) <= g.image.size();
    case Op::wmma_store: sem::run_wmma_store(form, s.data(), g.image.data(), stride); return true;
    default:
      if (!sem::can_mma(form)) return false;
      sem::run_mma(form, d.data(), s.data(), {});
      return true;
  }
}

// Outputs [slot][item] of the first `items` items; empty when the form has no meaning.
std::vector<std::vector<uint64_t>> evaluate(const VectorForm& f, uint32_t items) {
  const auto match = orrery::isa::match_name(f.text);
  if (!match.error.empty()) {
    printf("%s: %s\n", f.text.c_str(), match.error.c_str());
    return {};
  }
  const int lanes = lanes_of(f), words = count_role(f.s, 'M');
  std::vector<std::vector<uint64_t>> out(f.d.size(), std::vector<uint64_t>(items));
  Group g;
  g.s.assign(size_t(lanes) / 32, std::vector<Register>(f.s.size()));
  g.d.assign(size_t(lanes) / 32, std::vector<Register>(f.d.size()));
  const uint64_t seed = hash_text(f.key());
  uint64_t v[300][2];
  for (uint32_t i = 0; i < items; i += uint32_t(lanes)) {
    g.image.assign(size_t(words) * 4 * size_t(lanes), 0);
    for (int l = 0; l < lanes; l++) {
      inputs_of(f, seed, i + uint32_t(l), v);
      for (size_t j = 0; j < f.s.size(); j++) {
        if (f.s[j].role == 'M') memcpy(&g.image[(j * size_t(lanes) + size_t(l)) * 4], &v[j][0], 4);
        else set(g.s[size_t(l) / 32][j], f.s[j].reg, l % 32, v[j][0]);
      }
    }
    for (auto& warp : g.d)
      for (auto& r : warp) memset(&r, 0xee, sizeof r);
    if (!run_form(f, match.form, g)) return {};
    for (int l = 0; l < lanes; l++)
      for (size_t k = 0; k < f.d.size(); k++) {
        uint32_t m;
        memcpy(&m, g.image.data() + (f.d[k].role == 'M' ? (k * size_t(lanes) + size_t(l)) * 4 : 0), words ? 4 : 0);
        out[k][i + uint32_t(l)] = f.d[k].role == 'M' ? m : at(g.d[size_t(l) / 32][k], f.d[k].reg, l % 32) & mask_of(f.d[k].reg);
      }
  }
  return out;
}

void compare_raw(const VectorForm& f, const std::vector<std::vector<uint64_t>>& out, const char* raw, size_t items, int show) {
  size_t bad = 0, total = 0;
  for (size_t k = 0; k < f.d.size(); k++) {
    const size_t bytes = size_t(bytes_of(f.d[k].reg));
    for (size_t i = 0; i < items; i++, total++) {
      uint64_t v = 0;
      memcpy(&v, raw + i * bytes, bytes);
      if (v == out[k][i]) continue;
      if (bad++ < size_t(show)) printf("      warp %zu lane %zu d%zu: hw %" PRIx64 " sem %" PRIx64 "\n", i / 32, i % 32, k, v, out[k][i]);
    }
    raw += bytes * items;
  }
  printf("      %zu of %zu raw registers differ\n", bad, total);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return fprintf(stderr, "usage: check_tensor FORMS VECTORS [--match TEXT] [--chunks N] [--raw FILE] [--show N]\n"), 2;
  std::string match, raw;
  size_t most = SIZE_MAX, kept = 1024;
  int show = 4;
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string a = argv[i];
    if (a == "--match") match = argv[i + 1];
    else if (a == "--chunks") most = std::stoul(argv[i + 1]);
    else if (a == "--show") show = atoi(argv[i + 1]);
    else if (a == "--raw") raw = read_zst(argv[i + 1]);
  }
  const auto forms = read_forms(argv[1]);
  const uint32_t chunk = size_of_set(argv[1]).chunk;
  const auto recorded = read_vectors(argv[2]);
  size_t same = 0, different = 0, outputs = 0, raw_at = 0;
  for (auto& f : forms) {
    const size_t at = raw_at;
    for (auto& o : f.d) raw_at += size_t(bytes_of(o.reg)) * kept;
    if (!match.empty() && f.key().find(match) == std::string::npos) continue;
    const auto it = recorded.find(f.key());
    if (it == recorded.end()) {
      printf("not recorded: %s\n", f.key().c_str());
      different++;
      continue;
    }
    const size_t chunks = std::min(most, it->second.size());
    const auto out = evaluate(f, uint32_t(chunks) * chunk);
    if (out.empty()) {
      printf("no meaning: %s\n", f.key().c_str());
      different++;
      continue;
    }
    size_t bad = 0;
    for (size_t c = 0; c < chunks; c++) {
      uint64_t h = c;
      for (auto& plane : out)
        for (size_t i = c * chunk; i < (c + 1) * chunk; i++) h = fold(h, plane[i]);
      bad += h != it->second[c];
    }
    outputs += chunks * chunk * f.d.size();
    if (!bad) {
      same++;
      continue;
    }
    different++;
    printf("%s: DIFFERS, %zu of %zu chunks\n", f.key().c_str(), bad, chunks);
    if (!raw.empty()) compare_raw(f, out, raw.data() + at, kept, show);
  }
  printf("%zu forms equal in all %zu registers compared, %zu differ\n", same, outputs, different);
  return different ? 1 : 0;
} catch (const std::exception& e) {
  return fprintf(stderr, "check_tensor: %s\n", e.what()), 2;
}
