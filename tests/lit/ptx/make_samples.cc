// Writes sample instructions for every row of the instruction table, one a line: each word of each row at least once,
// each choice of optional operands at least once, operands of the right types, and then wrong ones.
// samples.py asks ptxas for its verdict on them and keeps the result in samples.txt.
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "isa/fragment.h"
#include "isa/row.h"

namespace {
using namespace orrery::isa;

/// Registers that the samples' frame declares: PREFIX0 .. PREFIX9 (m for the big vectors).
std::string reg(Type t, int n, Op op) {
  const char* prefix = "r";
  switch (bits_of(t)) {
    case 1: prefix = t == Type::pred ? "p" : "r"; break;
    case 8: prefix = op == Op::none ? "b" : "h"; break;
    case 16: prefix = "h"; break;
    case 64: prefix = t == Type::f64 ? "e" : "d"; break;
    case 128: prefix = "q"; break;
    default: prefix = t == Type::f32 ? "f" : "r"; break;
  }
  return prefix + std::to_string(n);
}

std::string vec(const std::string& prefix, int n) {
  if (n > 8) return "{" + prefix + "0.." + prefix + std::to_string(n - 1) + "}";  // samples.py writes it out
  std::string s = "{";
  for (int i = 0; i < n; ++i) s += (i ? ", " : "") + prefix + std::to_string(i);
  return s + "}";
}

Type slot_type(const OperandSlot& s, const Form& f) {
  if (s.type_from == OperandSlot::fixed) return s.type;
  if (s.type_from == OperandSlot::twice)
    return f.types[0] == Type::u16 ? Type::u32 : f.types[0] == Type::s16 ? Type::s32 : f.types[0] == Type::u32 ? Type::u64 : Type::s64;
  return f.types[s.type_index];
}

std::string operand(const Row& row, const Form& f, const OperandSlot& s, int index) {
  Type t = slot_type(s, f);
  std::string name(s.name);
  // registers of 8 bits where wider ones do not serve
  bool byte = s.type_from == OperandSlot::fixed || f.types[0] == Type::bf16 || f.types[1] == Type::bf16 || row.op == Op::st_async;
  auto one = [&](int n) { return reg(t, n, byte ? Op::none : row.op); };
  auto many = [&](int n, int k) { return vec(one(0).substr(0, 1), k); };
  bool tensor = row.timing == Timing::tensor || row.op == Op::wmma_load || row.op == Op::wmma_store;
  static const char* const coordinates[] = {"{r0}", "{r0, r1}", "{r0, r1, r2}", "{r0, r1, r2, r3}", "{r0, r1, r2, r3, r4}"};
  int dims = f.has(Mod::g1d) ? 1 : f.has(Mod::g2d) ? 2 : f.has(Mod::g3d) ? 3 : f.has(Mod::g4d) ? 4 : 5;
  bool texture = row.timing == Timing::tex;
  if (texture) dims = f.has(Mod::g1d) ? 1 : f.has(Mod::g2d) || f.has(Mod::a1d) ? 2 : 4;
  if (f.has(Mod::tile_gather4) || f.has(Mod::tile_scatter4)) dims = 5;
  switch (s.kind) {
    case OperandSlot::dst: return f.vec > 1 ? many(0, f.vec) : one(0);
    case OperandSlot::src:
      if (name == "dx" || name == "dy") return dims == 1 ? "{f1}" : vec("f", f.has(Mod::cube) || f.has(Mod::acube) ? 4 : f.has(Mod::a1d) ? 1 : f.has(Mod::a2d) ? 2 : dims);
      if (s.type_from == OperandSlot::unchecked) {
        if (name == "offsets") return dims == 3 ? "{h0}" : dims == 4 ? "{h0, h1}" : "{h0, h1, h2}";
        if (row.op == Op::tex || row.op == Op::tld4) return name == "e" ? (f.has(Mod::g3d) ? "{r0, r1, r2, r3}" : "{r0, r1}") : "f9";
        return "r8";
      }
      if (row.op == Op::shl || row.op == Op::shr) return one(index);
      return f.vec > 1 && s.type_from == OperandSlot::from_form && s.type_index == 0 ? many(0, f.vec) : one(index);
    case OperandSlot::imm:
      if (row.op == Op::cp_async) return "16";
      if (row.op == Op::applypriority || row.op == Op::discard || name == "size") return "128";
      if (name == "sp_sel" || name == "f" || row.op == Op::st_bulk) return "0";
      if (row.op == Op::setmaxnreg) return "64";
      return "1";
    case OperandSlot::address:
      if (f.space() == Space::param && (row.op == Op::st || row.op == Op::ld)) return "[cp]";
      if (row.timing == Timing::tensor && name_of(row.op).starts_with("tcgen05") && name == "t") return "[r7]";
      return name == "mbar" ? "[d7]" : f.space() == Space::shared || f.space() == Space::shared_cta ? "[r7]" : "[d" + std::to_string(index + 1) + "]";
    case OperandSlot::address_parts: {
      std::string c = coordinates[dims - 1];
      if (texture && f.n_types > 1 && f.types[1] == Type::f32) {
        for (char& ch : c) ch = ch == 'r' ? 'f' : ch;
        if (f.has(Mod::a1d) || f.has(Mod::a2d) || f.has(Mod::acube)) c[1] = 'r';
      }
      return "[d1, " + c + "]";
    }
    case OperandSlot::vec:
    case OperandSlot::vec_or_src:
      if (row.op == Op::ldmatrix || row.op == Op::stmatrix)
        return vec("r", (f.has(Mod::x4) ? 4 : f.has(Mod::x2) ? 2 : 1) * (f.shape.m == 16 && f.shape.n == 16 ? 2 : 1));
      if (name == "offsets") return dims == 3 && f.has(Mod::im2col) ? "{h0}" : dims == 4 || !f.has(Mod::im2col) ? "{h0, h1}" : "{h0, h1, h2}";
      if (name_of(row.op).starts_with("tcgen05")) {
        int n = f.has(Mod::s16x128b) ? 2 : f.has(Mod::s16x256b) ? 4 : 1;
        for (int x = 0; x < 8; ++x)
          if (f.has(Mod(int(Mod::x1) + x))) n <<= x;
        return vec("r", n);
      }
      if (name == "ia") return "{h0, h1}";
      if (name == "ib") return "{h2, h3}";
      if (auto part = fragment(f, name[0]); part && tensor)
        return vec(part->type == Type::f64 ? "e" : part->type == Type::f32 ? "f" : "r", part->registers);
      if (row.op == Op::mov) return many(index, f.vec);
      if (row.op == Op::cvt) return vec("f", 4);
      return vec("r", 4);
    case OperandSlot::pair: return (f.vec > 1 ? many(0, f.vec) : one(0)) + (s.type == Type::pred ? "|p1" : "|p0");
    case OperandSlot::any: return row.op == Op::mov && f.vec > 1 ? many(4, f.vec) : one(index);
    case OperandSlot::sink: return "_";
    case OperandSlot::label: return "L";
    case OperandSlot::targets: return "T";
  }
  return "";
}

}  // namespace

int main() {
  std::set<std::string> seen;
  for (const Row& row : rows()) {
    for (const std::string& name : spellings(row)) {
      NameMatch match = match_name(name);
      for (const auto& picture : row.pictures) {
        if (!picture_applies(picture, match.form)) continue;
        std::string line = name;
        for (size_t i = 0; i < picture.size(); ++i)
          line += (i ? ", " : " ") + operand(row, match.form, picture[i], int(i));
        if (row.op == Op::call) continue;
        line += ";";
        if (seen.insert(line).second) std::printf("sm_%u%s %s\n", row.min_sm(), (row.effects & effect::only) ? "a" : "", line.c_str());
      }
    }
  }
}
