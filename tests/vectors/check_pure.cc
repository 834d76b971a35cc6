// check_pure: runs every recorded pure form through sem/ and compares hashes of all outputs with the hardware's.
//
//   check_pure FORMS VECTORS EXCEPTIONS [--match TEXT] [--raw FILE...] [--show N]
//
// --raw takes the recorder's raw outputs (not in the repository) and shows inputs and both results where they differ.
// Exit status 1 when a form differs.
#include <cinttypes>

#include "forms.h"
#include "isa/row.h"
#include "sem/pure.h"
#include "vector_file.h"

using namespace vectors;
using orrery::isa::match_name;

namespace {

struct Frame {  // one operand: 32 lanes in the layout of sem/pure.h, with room for 128 bits
  alignas(64) uint64_t words[64];
  uint32_t* w32() { return reinterpret_cast<uint32_t*>(words); }
};
void fill(Frame& f, Reg reg, int lane, const uint64_t v[2]) {
  switch (reg) {
    case Reg::pred: case Reg::carry: f.w32()[0] = (f.w32()[0] & ~(1u << lane)) | uint32_t(v[0] & 1) << lane; break;
    case Reg::r16: f.w32()[lane] = uint32_t(v[0] & 0xffff) | 0xdead0000u; break;  // upper bits are unspecified
    case Reg::r64: f.words[lane] = v[0]; break;
    case Reg::r128: f.words[lane] = v[0], f.words[32 + lane] = v[1]; break;
    default: f.w32()[lane] = uint32_t(v[0]);
  }
}
uint64_t take(Frame& f, Reg reg, int lane, int half) {
  switch (reg) {
    case Reg::pred: case Reg::carry: return f.w32()[0] >> lane & 1;
    case Reg::r64: return f.words[lane];
    case Reg::r128: return f.words[32 * half + lane];
    default: return f.w32()[lane] & mask_of(reg);
  }
}

struct Outcome {
  std::vector<std::vector<uint64_t>> out;  // [slot][item]
  bool known = false;
};

std::vector<uint32_t> video_words(const VectorForm& f) {
  std::vector<uint32_t> words(3, 0);
  if (f.text[0] != 'v') return words;
  std::stringstream in(f.operands);
  size_t k = 0;
  for (std::string op; std::getline(in, op, ',') && k < 3; k++) {
    const size_t dot = op.find('.');
    if (dot != std::string::npos) words[k] = orrery::sem::video_selector(trim(op.substr(dot + 1)));
  }
  return words;
}

Outcome evaluate(const VectorForm& f, uint32_t items) {
  Outcome o;
  const auto match = match_name(f.text);
  const orrery::sem::PureFn pure = orrery::sem::find_pure(match.form, int(f.d.size()), int(f.s.size()));
  if (!match.error.empty() || !pure) return o;
  o.known = true;
  std::vector<Frame> d(f.d.size()), s(f.s.size());
  std::vector<void*> dp;
  std::vector<const void*> sp;
  for (auto& x : d) dp.push_back(&x);
  for (auto& x : s) sp.push_back(&x);
  std::vector<uint32_t> words = video_words(f);
  if (f.text[0] == 'v') {
    sp.resize(3, nullptr);
    for (auto& w : words) sp.push_back(&w);
  }
  for (auto& x : f.d) {
    o.out.emplace_back(items);
    if (x.reg == Reg::r128) o.out.emplace_back(items);
  }
  const uint64_t seed = hash_text(f.key());
  for (uint32_t i = 0; i < items; i += 32) {
    uint64_t v[16][2];
    for (int lane = 0; lane < 32; lane++) {
      inputs_of(f, seed, i + uint32_t(lane), v);
      for (size_t j = 0; j < f.s.size(); j++) fill(s[j], f.s[j].reg, lane, v[j]);
    }
    for (auto& x : d) memset(&x, 0xee, sizeof x);
    if (i & 32) {  // both loops: full warps, and a partial mask in two steps
      pure(match.form, dp.data(), sp.data(), 0x0f35a7c1);
      pure(match.form, dp.data(), sp.data(), ~0x0f35a7c1u);
    } else {
      pure(match.form, dp.data(), sp.data(), ~0u);
    }
    for (int lane = 0; lane < 32; lane++)
      for (size_t k = 0, slot = 0; k < f.d.size(); k++, slot++) {
        o.out[slot][i + uint32_t(lane)] = take(d[k], f.d[k].reg, lane, 0);
        if (f.d[k].reg == Reg::r128) o.out[++slot][i + uint32_t(lane)] = take(d[k], f.d[k].reg, lane, 1);
      }
  }
  return o;
}

// A line "start | part | reason" lists the keys that begin with start and contain part.
bool listed(const std::string& exceptions, const std::string& key) {
  std::ifstream in(exceptions);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t a = line.find('|'), b = line.find('|', a + 1);
    if (key.rfind(trim(line.substr(0, a)), 0) == 0 && key.find(trim(line.substr(a + 1, b - a - 1))) != std::string::npos) return true;
  }
  return false;
}

size_t raw_size(const VectorForm& f, size_t kept, size_t& items) {
  const bool exhaustive = f.s.size() == 1 && (f.s[0].reg == Reg::r16 || f.s[0].kind == "f16x2" || f.s[0].kind == "bf16x2");
  items = exhaustive ? kItems : kept;
  size_t bytes = 0;
  for (auto& o : f.d) bytes += size_t(bytes_of(o.reg)) * items;
  return bytes;
}

// Compares with raw outputs; returns the number of differing items.
size_t compare_raw(const VectorForm& f, const Outcome& o, const char* raw, size_t items, int show) {
  std::vector<const char*> plane;
  for (auto& x : f.d) {
    plane.push_back(raw);
    raw += size_t(bytes_of(x.reg)) * items;
  }
  const uint64_t seed = hash_text(f.key());
  size_t bad = 0;
  for (size_t i = 0; i < items; i++) {
    bool differs = false;
    std::string got, want;
    for (size_t k = 0, slot = 0; k < f.d.size(); k++, slot++) {
      const int bytes = bytes_of(f.d[k].reg);
      for (int half = 0; half < (bytes == 16 ? 2 : 1); half++) {
        uint64_t v = 0;
        memcpy(&v, plane[k] + size_t(bytes) * i + 8 * size_t(half), size_t(std::min(bytes, 8)));
        const uint64_t mine = o.out[slot + size_t(half)][i];
        char t[40];
        snprintf(t, sizeof t, " %" PRIx64, v), want += t;
        snprintf(t, sizeof t, " %" PRIx64, mine), got += t;
        differs |= mine != v;
      }
      slot += bytes == 16;
    }
    if (differs && bad++ < size_t(show)) {
      uint64_t v[16][2];
      inputs_of(f, seed, uint32_t(i), v);
      printf("    ");
      for (size_t j = 0; j < f.s.size(); j++) printf(" %" PRIx64, f.s[j].reg == Reg::imm ? f.s[j].imm : v[j][0] & mask_of(f.s[j].reg));
      printf(" -> hw%s sem%s\n", want.c_str(), got.c_str());
    }
  }
  return bad;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) return fprintf(stderr, "usage: check_pure FORMS VECTORS EXCEPTIONS [--match TEXT] [--raw FILE...] [--show N]\n"), 2;
  std::string match, raw;
  int show = 4;
  size_t kept = 4096;
  for (int i = 4; i < argc; i++) {
    if (!strcmp(argv[i], "--match")) match = argv[++i];
    else if (!strcmp(argv[i], "--show")) show = atoi(argv[++i]);
    else if (strcmp(argv[i], "--raw")) raw += read_zst(argv[i]);
  }
  const auto forms = read_forms(argv[1]);
  const auto recorded = read_vectors(argv[2]);
  size_t excepted = 0, raw_at = 0, same = 0, unknown = 0, different = 0;
  for (auto& f : forms) {
    size_t items = 0;
    const size_t bytes = raw_size(f, kept, items), at = raw_at;
    raw_at += bytes;
    if (!match.empty() && f.key().find(match) == std::string::npos) continue;
    const auto it = recorded.find(f.key());
    if (it == recorded.end()) {
      printf("not recorded: %s\n", f.key().c_str());
      continue;
    }
    const Outcome o = evaluate(f, kItems);
    if (!o.known && listed(argv[3], f.key())) {
      excepted++;
      continue;
    }
    if (!o.known) {
      unknown++;
      printf("no meaning: %s\n", f.key().c_str());
      continue;
    }
    size_t chunks = 0;
    for (size_t c = 0; c < it->second.size(); c++) {
      uint64_t h = c;
      for (auto& plane : o.out)
        for (size_t i = c * kChunk; i < (c + 1) * kChunk; i++) h = fold(h, plane[i]);
      chunks += h != it->second[c];
    }
    if (chunks == 0) {
      same++;
      continue;
    }
    if (raw.empty() && listed(argv[3], f.key())) {
      excepted++;
      continue;
    }
    different++;
    printf("%s: DIFFERS, %zu of %zu chunks differ\n", f.key().c_str(), chunks, it->second.size());
    if (!raw.empty()) printf("      %zu of %zu raw items differ\n", compare_raw(f, o, raw.data() + at, items, show), items);
  }
  printf("%zu forms: %zu equal in all %u items, %zu differ, %zu listed as exceptions, %zu without a meaning\n", forms.size(), same, kItems,
         different, excepted, unknown);
  return different || unknown ? 1 : 0;
} catch (const std::exception& e) {
  return fprintf(stderr, "check_pure: %s\n", e.what()), 2;
}
