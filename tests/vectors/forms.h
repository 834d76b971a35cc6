// tests/vectors/forms.h: which instruction forms were recorded on hardware, and the inputs that they were given.
//
// The recorder (GPU side) and the test (model side) both include this file: inputs are never stored, they come from
// a generator seeded by the form's text. A line of a .forms file is
//     [@FIRST..LAST:STEP] pattern | destinations | sources [| operands]
// and expands to one form for every combination of its {a,b,...} groups; $n is the n-th choice made. With a sweep, there
// is one such line for every value of n: <n>, <n/D> and <n/D+C> stand for the numbers.
//
// Inputs of a form mix: every pair of edge values, random bits, edge values, values near (or cancelling) the previous
// source, products near the smallest normal. One 16-bit source is exhausted. Tensor operands (A, B, C roles) share a
// regime per warp: ordinary, wide exponents, cancelling pairs, subnormal, zeros, overflow, specials.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace vectors {

enum class Reg : uint8_t { pred, r16, r32, r64, r128, imm, carry };

struct Operand {
  std::string kind;   // as written: a type name, p, c, sh, ...
  Reg reg = Reg::r32;
  char role = 0;      // A, B, C, E, M (memory image) or D of a tensor form; 0 otherwise
  uint64_t imm = 0;
};

struct VectorForm {
  std::string text, operands;  // dotted name; operand template
  std::vector<Operand> d, s;
  std::string key() const {
    std::string k = text + " ";
    for (auto& o : d) k += " " + std::string(o.role ? 1 : 0, o.role) + o.kind;
    k += " <-";
    for (auto& o : s) k += " " + std::string(o.role ? 1 : 0, o.role) + o.kind + (o.reg == Reg::imm ? std::to_string(o.imm) : "");
    return k + " : " + operands;
  }
};

struct Rng {
  uint64_t s;
  uint64_t u64() {
    uint64_t z = (s += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t n) { return uint32_t((u64() >> 32) * n >> 32); }
  int range(int lo, int hi) { return hi <= lo ? lo : lo + int(below(uint32_t(hi - lo + 1))); }
  bool one_in(uint32_t n) { return below(n) == 0; }
};

inline uint64_t hash_text(const std::string& t) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char c : t) h = (h ^ c) * 0x100000001b3ull;
  return h;
}

// -- reading the forms

inline std::vector<std::pair<std::string, std::vector<std::string>>> expand(const std::string& line, std::vector<std::string> chosen = {}) {
  const size_t open = line.find('{');
  // groups with commas only: operand templates use braces for vectors after the last bar, handled by the caller
  if (open == std::string::npos) return {{line, chosen}};
  const size_t close = line.find('}', open);
  std::stringstream inside(line.substr(open + 1, close - open - 1));
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  for (std::string word; std::getline(inside, word, ',');) {
    auto next = chosen;
    next.push_back(word);
    for (auto& e : expand(line.substr(0, open) + word + line.substr(close + 1), next)) all.push_back(e);
  }
  return all;
}

inline std::string trim(const std::string& s) {
  const size_t a = s.find_first_not_of(" \t"), b = s.find_last_not_of(" \t");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

inline Operand operand_of(const std::string& word) {
  Operand o;
  o.kind = word;
  if (word[0] == '=') {
    o.reg = Reg::imm;
    o.imm = std::stoull(word.substr(1), nullptr, 0);
    return o;
  }
  auto is = [&](std::initializer_list<const char*> l) {
    for (auto* t : l)
      if (word == t) return true;
    return false;
  };
  if (word == "p" || word == "pred") o.reg = Reg::pred;
  else if (word == "c") o.reg = Reg::carry;
  else if (is({"b128"})) o.reg = Reg::r128;
  else if (is({"b64", "u64", "s64", "f64", "u64w", "s64w"})) o.reg = Reg::r64;
  else if (is({"b16", "u16", "s16", "f16", "bf16", "u8h", "s8h"})) o.reg = Reg::r16;
  else o.reg = Reg::r32;
  return o;
}
// "A4:f16" is four registers of role A; anything else one operand.
inline std::vector<Operand> operands_of(const std::string& field) {
  std::vector<Operand> all;
  std::stringstream words(field);
  for (std::string w; words >> w;) {
    const size_t colon = w.find(':');
    if (colon == std::string::npos) {
      all.push_back(operand_of(w));
      continue;
    }
    Operand o = operand_of(w.substr(colon + 1));
    o.reg = o.kind == "f64" ? Reg::r64 : Reg::r32;
    o.role = w[0];
    for (int i = std::stoi(w.substr(1, colon - 1)); i > 0; i--) all.push_back(o);
  }
  return all;
}
inline std::string default_operands(const VectorForm& f) {
  std::string t;
  int nd = 0;
  auto vec = [&](const std::vector<Operand>& ops, char letter, size_t& i) {
    const char role = ops[i].role;
    std::string v = "{";
    for (bool first = true; i < ops.size() && ops[i].role == role; i++, first = false) v += (first ? "" : ",") + (letter + std::to_string(i));
    return v + "}";
  };
  for (size_t i = 0; i < f.d.size();) {
    if (f.d[i].role) { t += vec(f.d, 'd', i); nd++; continue; }
    if (f.d[i].reg != Reg::carry) t += (nd++ ? "|" : "") + ("d" + std::to_string(i));
    i++;
  }
  for (size_t i = 0; i < f.s.size();) {
    if (f.s[i].role && f.s[i].role != 'E') { t += ", " + vec(f.s, 's', i); continue; }
    if (f.s[i].reg == Reg::imm) t += ", " + f.s[i].kind.substr(1);
    else if (f.s[i].reg != Reg::carry) t += ", s" + std::to_string(i);
    i++;
  }
  return t;
}

/// The lines of a sweep (a line without one stands for itself).
inline std::vector<std::string> swept(const std::string& line) {
  int first, last, step, skip = 0;
  if (sscanf(line.c_str(), "@%d..%d:%d %n", &first, &last, &step, &skip) != 3) return {line};
  std::vector<std::string> all;
  for (int n = first; n <= last; n += step) {
    std::string t = line.substr(size_t(skip));
    for (size_t at; (at = t.find("<n")) != std::string::npos;) {
      int divisor = 1, add = 0;
      sscanf(t.c_str() + at, "<n/%d+%d", &divisor, &add);
      t.replace(at, t.find('>', at) + 1 - at, std::to_string(n / divisor + add));
    }
    all.push_back(t);
  }
  return all;
}

inline std::vector<VectorForm> read_forms(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::vector<VectorForm> forms;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#')
      for (auto& l : swept(line)) lines.push_back(l);
  for (auto& line : lines) {
    // vector braces in the operand template hold registers: hide them from the expansion
    std::string shown = line;
    size_t last = 0;
    for (int bars = 0; bars < 3 && last != std::string::npos; bars++) last = shown.find('|', last + 1);
    for (size_t i = last; i != std::string::npos && (i = shown.find('{', i)) != std::string::npos; i++)
      if ((shown[i + 1] == 'd' || shown[i + 1] == 's') && isdigit(shown[i + 2])) {
        shown[shown.find('}', i)] = ')';
        shown[i] = '(';
        for (size_t k = i; shown[k] != ')'; k++)
          if (shown[k] == ',') shown[k] = ';';
      }
    for (auto& [text, chosen] : expand(shown)) {
      std::string t = text;
      for (size_t i = 0; (i = t.find('$')) != std::string::npos;) t.replace(i, 2, chosen.at(size_t(t[i + 1] - '1')));
      for (char& ch : t) ch = ch == '(' ? '{' : ch == ')' ? '}' : ch == ';' ? ',' : ch;
      std::vector<std::string> fields;
      std::stringstream parts(t);
      for (std::string p; std::getline(parts, p, '|');) fields.push_back(trim(p));
      VectorForm f;
      f.text = fields.at(0);
      f.d = operands_of(fields.at(1));
      f.s = operands_of(fields.at(2));
      f.operands = fields.size() > 3 ? fields[3] : default_operands(f);
      forms.push_back(f);
    }
  }
  return forms;
}

// -- inputs

struct FloatFormat { int e, m, width; };
inline bool float_format(const std::string& kind, FloatFormat& f) {
  static const std::map<std::string, FloatFormat> table = {
      {"f16", {5, 10, 16}}, {"bf16", {8, 7, 16}}, {"f32", {8, 23, 32}}, {"f64", {11, 52, 64}}, {"f16x2", {5, 10, 16}},
      {"bf16x2", {8, 7, 16}}, {"tf32", {8, 10, 19}}, {"e4m3", {4, 3, 8}}, {"e5m2", {5, 2, 8}}};
  auto it = table.find(kind);
  if (it == table.end()) return false;
  f = it->second;
  return true;
}
inline uint64_t low_bits(int n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

inline uint64_t make_float(FloatFormat f, bool neg, int biased, uint64_t man) {
  const int top = (1 << f.e) - 1;
  biased = biased < 0 ? 0 : biased > top ? top : biased;
  return uint64_t(neg) << (f.e + f.m) | uint64_t(biased) << f.m | (man & low_bits(f.m));
}
inline uint64_t random_mantissa(Rng& r, int bits) {
  const uint64_t m = r.u64();
  switch (r.below(8)) {
    case 0: return 0;
    case 1: return ~0ull;
    case 2: return 1ull << (m % uint64_t(bits));
    case 3: return ~(1ull << (m % uint64_t(bits)));
    default: return m;
  }
}
inline uint64_t edge_float(FloatFormat f, uint32_t k) {
  const int top = (1 << f.e) - 1, bias = top / 2;
  const uint64_t sign = uint64_t(k & 1) << (f.e + f.m), ones = low_bits(f.m);
  const std::array<uint64_t, 16> mags = {
      0, 1, ones, uint64_t(1) << f.m, (uint64_t(1) << f.m) + 1, uint64_t(bias) << f.m, (uint64_t(bias) << f.m) + 1,
      (uint64_t(bias - 1) << f.m) | ones, uint64_t(top - 1) << f.m | ones, uint64_t(top) << f.m, uint64_t(top) << f.m | 1,
      uint64_t(top) << f.m | ((ones >> 1) + 1), uint64_t(bias + 1) << f.m, uint64_t(bias - 1) << f.m, ones >> 1, uint64_t(bias + f.m + 1) << f.m};
  return sign | mags[k >> 1 & 15];
}
inline uint64_t random_float(FloatFormat f, Rng& r, bool has_previous, uint64_t previous) {
  const int top = (1 << f.e) - 1, bias = top / 2, px = int(previous >> f.m) & top;
  switch (r.below(10)) {
    case 0: case 1: return r.u64() & low_bits(f.e + f.m + 1);
    case 2: return edge_float(f, r.below(32));
    case 3: return make_float(f, r.one_in(2), r.range(0, 1), random_mantissa(r, f.m));
    case 4: case 5: return make_float(f, r.one_in(2), bias + r.range(-12, 12), random_mantissa(r, f.m));
    case 6: return make_float(f, r.one_in(2), bias + r.range(-2, f.m + 3), r.u64() << r.below(uint32_t(f.m)));
    case 7: if (has_previous) return make_float(f, r.one_in(2), 2 * bias - px + 1 - bias + r.range(-2, 2), random_mantissa(r, f.m)); [[fallthrough]];
    case 8: if (has_previous) return (previous ^ uint64_t(r.one_in(2)) << (f.e + f.m)) + uint64_t(int64_t(r.range(-2, 2))); [[fallthrough]];
    default: if (has_previous) return make_float(f, r.one_in(2), px + r.range(-f.m - 3, f.m + 3), random_mantissa(r, f.m));
             return make_float(f, r.one_in(2), r.range(0, top), random_mantissa(r, f.m));
  }
}
inline uint64_t edge_integer(uint32_t k) {
  static const uint64_t base[32] = {0, 1, 2, 3, 7, 8, 15, 16, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffff, 0x800000,
    0xffffff, 0x1000000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0x5555555555555555,
    0x3333333333333333, 31, 32, 33, 63};
  return k & 32 ? 0 - base[k & 31] : base[k & 31];
}
inline uint64_t random_integer(Rng& r, bool has_previous, uint64_t previous) {
  switch (r.below(8)) {
    case 0: case 1: return edge_integer(r.below(64));
    case 2: return r.u64() >> r.below(64);
    case 3: return 0 - (r.u64() >> r.below(64));
    case 4: if (has_previous) return previous + uint64_t(int64_t(r.range(-2, 2))); [[fallthrough]];
    default: return r.u64();
  }
}
inline uint64_t plain_value(const std::string& kind, Rng& r, bool has_previous, uint64_t previous, int edge) {
  FloatFormat f;
  if (kind == "sh") {
    static const uint32_t at[8] = {0, 31, 32, 33, 63, 64, 255, 256};
    const uint32_t c = r.below(8);
    return c < 4 ? r.below(41) : c < 6 ? r.below(71) : c == 6 ? at[r.below(8)] : uint32_t(r.u64());
  }
  if (kind == "pos") return r.below(32);
  if (kind == "bit") return r.one_in(8) ? uint32_t(r.u64()) : uint32_t(r.range(-6, 6));
  if (kind == "p" || kind == "c" || kind == "pred") return r.u64() & 1;
  if (float_format(kind, f)) {
    auto one = [&](int shift) { return edge >= 0 ? edge_float(f, uint32_t(edge)) : random_float(f, r, has_previous, previous >> shift & low_bits(f.width)) & low_bits(f.width); };
    if (kind == "f16x2" || kind == "bf16x2") {
      const uint64_t lo = one(0);
      return lo | random_float(f, r, has_previous, previous >> 16 & 0xffff) << 16;
    }
    return one(0);
  }
  return edge >= 0 ? edge_integer(uint32_t(edge)) : random_integer(r, has_previous, previous);
}

// -- tensor operands: one regime a warp

struct Regime {
  int kind, a, wa, b, wb, c, wc, flip;
};
inline int bias_of(FloatFormat f) { return (1 << (f.e - 1)) - 1; }
inline Regime regime_of(Rng& r, FloatFormat fa, FloatFormat fb, FloatFormat fc) {
  Regime g{int(r.below(9)), 0, 2, 0, 2, 0, 2, int(r.range(1, 5))};
  const int lo = 1 - bias_of(fc) - fc.m, hi = bias_of(fc), la = 1 - bias_of(fa) - fa.m, ha = bias_of(fa), lb = 1 - bias_of(fb) - fb.m, hb = bias_of(fb);
  auto split = [&](int t) {
    const int from = std::max(la, t - hb), to = std::min(ha, t - lb);
    g.a = to >= from ? r.range(from, to) : t > 0 ? ha : la;
    g.b = std::min(std::max(t - g.a, lb), hb);
    g.c = g.a + g.b;
  };
  switch (g.kind) {
    case 0: case 8: g.c = r.range(-4, 4); break;
    case 1: split(r.range(std::max(la + lb, lo), std::min(ha + hb, hi - 2))); g.wa = g.wb = 4 << r.range(0, 3); g.wc = g.wa; break;
    case 2: g.wa = g.wb = r.range(0, 4); g.c = -r.range(0, 24); break;
    case 3: split(r.range(lo - 4, lo + fc.m + 2)); g.wa = g.wb = 3; g.c = r.range(lo, lo + fc.m); break;
    case 4: g.a = 1 - bias_of(fa) - 1; g.wa = fa.m; g.b = r.range(-2, 4); g.c = g.a + g.b; g.wc = 6; break;
    case 5: g.wa = g.wb = 4; break;
    case 6: split(r.range(hi - 6, hi)); g.c = r.range(hi - 6, hi); g.wa = g.wb = g.wc = 2; break;
    default: g.wa = g.wb = 3; break;
  }
  return g;
}
inline uint64_t tensor_float(FloatFormat f, Rng& r, const Regime& g, int centre, int width) {
  if (g.kind == 5 && !r.one_in(3)) return uint64_t(r.one_in(2)) << (f.e + f.m);
  if (g.kind == 7 && r.one_in(12)) return edge_float(f, r.below(32));
  int x = centre + r.range(-width, width) + bias_of(f);
  uint64_t man = random_mantissa(r, f.m);
  if (x <= 0) {
    const int sh = 1 - x;
    man = sh > f.m + 1 ? 0 : ((1ull << f.m) | (man & low_bits(f.m))) >> sh;
    x = 0;
  }
  const int top = (1 << f.e) - 1, most = f.e == 4 ? top : top - 1;
  uint64_t v = make_float(f, r.one_in(2), std::min(x, most), man);
  if (f.e == 4 && (v & 0x7f) == 0x7f) v ^= 1;
  return v;
}
inline uint64_t tensor_register(const Operand& o, Rng& r, const Regime& g) {
  FloatFormat f;
  if (o.kind == "meta") {  // 2:4 metadata: eight pairs of ascending indices
    static const uint32_t pair[6] = {0x4, 0x8, 0xc, 0x9, 0xd, 0xe};
    uint32_t v = 0;
    for (int i = 0; i < 8; i++) v |= pair[r.below(6)] << (4 * i);
    return v;
  }
  if (o.kind == "meta2") {  // 1:2 metadata of tf32
    uint32_t v = 0;
    for (int i = 0; i < 8; i++) v |= (r.one_in(2) ? 0xeu : 0x4u) << (4 * i);
    return v;
  }
  if (!float_format(o.kind, f)) return g.kind == 1 ? edge_integer(r.below(64)) & 0xffffffff : uint32_t(r.u64());
  const int centre = o.role == 'A' ? g.a : o.role == 'B' ? g.b : g.c, width = o.role == 'A' ? g.wa : o.role == 'B' ? g.wb : g.wc;
  if (o.kind == "tf32") return tensor_float(f, r, g, centre, width) << 13 | (r.one_in(2) ? r.u64() & 0x1fff : 0);
  if (f.width >= 32) return tensor_float(f, r, g, centre, width);
  uint64_t v = 0;
  for (int at = 0; at < 32; at += f.width) {
    uint64_t e = tensor_float(f, r, g, centre, width);
    if (g.kind == 2 && at & f.width && o.role != 'C') {  // odd element cancels or repeats the even one
      e = v >> (at - f.width) & low_bits(f.width);
      if (o.role == 'A') e ^= 1ull << (f.width - 1);
      if (r.one_in(uint32_t(g.flip) + 1)) e ^= 1;
      if (f.e == 4 && (e & 0x7f) == 0x7f) e ^= 1;
    }
    v |= e << at;
  }
  return v;
}

/// The sources of item i: one value per source, b128 values as two (low, high); stored at out[j].
inline void inputs_of(const VectorForm& f, uint64_t seed, uint32_t i, uint64_t (*out)[2]) {
  Rng r{seed ^ (uint64_t(i) * 0xd1342543de82ef95ull)};
  r.u64();
  const bool tensor = !f.s.empty() && f.s[0].role;
  if (tensor) {
    Rng warp{seed + 0x51ed27 + i / 32};
    FloatFormat fa{5, 10, 16}, fb = fa, fc{8, 23, 32};
    for (auto& o : f.s) float_format(o.kind, o.role == 'A' || o.role == 'M' ? fa : o.role == 'B' ? fb : fc);
    const Regime g = regime_of(warp, fa, fb, fc);
    for (size_t j = 0; j < f.s.size(); j++) out[j][0] = f.s[j].reg == Reg::imm ? f.s[j].imm : tensor_register(f.s[j], r, g), out[j][1] = 0;
    return;
  }
  size_t values = 0;
  for (auto& o : f.s) values += o.reg != Reg::imm;
  const bool alone = values == 1 && (f.s[0].reg == Reg::r16 || f.s[0].kind == "f16x2" || f.s[0].kind == "bf16x2");
  uint64_t previous = 0;
  for (size_t j = 0; j < f.s.size(); j++) {
    const Operand& o = f.s[j];
    FloatFormat ff;
    const bool flt = float_format(o.kind, ff);
    const uint32_t edges = flt ? 32 : 64;
    int edge = -1;
    if (i < edges * edges && j < 2) edge = int(j == 0 ? i % edges : i / edges % edges);
    if (o.reg == Reg::imm) { out[j][0] = o.imm, out[j][1] = 0; continue; }
    uint64_t v = plain_value(o.kind, r, j > 0, previous, edge);
    if (alone) v = (v & ~0xffffull) | (i & 0xffff);
    out[j][0] = previous = v;
    out[j][1] = o.reg == Reg::r128 ? r.u64() : 0;
  }
}

inline int bytes_of(Reg r) { return r == Reg::pred || r == Reg::carry ? 1 : r == Reg::r16 ? 2 : r == Reg::r32 ? 4 : r == Reg::r64 ? 8 : 16; }
inline uint64_t mask_of(Reg r) { return r == Reg::pred || r == Reg::carry ? 1 : r == Reg::r16 ? 0xffff : r == Reg::r32 ? 0xffffffff : ~0ull; }

/// Folds one output value into a running hash.
inline uint64_t fold(uint64_t h, uint64_t v) {
  h ^= v * 0x9e3779b97f4a7c15ull;
  h = std::rotl(h, 27) * 0x3c79ac492ba7b653ull;
  return h ^ h >> 33;
}

constexpr uint32_t kItems = 65536, kChunk = 8192;   // of a pure form

/// How many items (threads) of each form of a set were recorded, and how many share a hash.
struct SetSize {
  uint32_t items, chunk;
};
inline SetSize size_of_set(const std::string& path) {
  const size_t from = path.rfind('/') + 1;
  const std::string stem = path.substr(from, path.find('.', from) - from);
  if (stem == "pure") return {kItems, kChunk};
  if (stem == "tensor") return {1u << 20, 1u << 15};
  if (stem == "wgmma") return {1u << 13, 1u << 10};
  if (stem == "offsets") return {1u << 11, 1u << 10};
  return {kItems * 2, 1u << 15};
}

}  // namespace vectors
