// tests/differential/generate.cc: see generate.h.
#include "generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "forms.h"

namespace differential {

using namespace orrery;
using isa::OperandSlot;
using isa::Type;

namespace {

/// Where a statement stands.
struct Place {
  std::string members;          // register with the lanes that are here together; empty: not known
  int depth = 0;
  bool top = false;             // all threads of the block come here
  std::string leave, again;     // labels of the innermost loop, when lanes may jump there
  std::vector<std::string> once;  // registers that one statement before this place has defined
};

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_{seed * 0x9e3779b97f4a7c15ull + 1} { program_.seed = seed; }

  Program make() {
    static const uint32_t kBlocks[][3] = {{32, 1, 1}, {64, 1, 1}, {128, 1, 1}, {40, 1, 1}, {16, 8, 1}, {8, 8, 2}, {20, 3, 1}, {1, 1, 1}, {7, 9, 1}};
    const uint32_t* block = kBlocks[random_.below(9)];
    std::copy_n(block, 3, program_.block);
    program_.grid = uint32_t(1 + random_.below(3));
    protocols_ = random_.one_in(2);
    calls_ = random_.one_in(4) ? 4 : 0;
    Place place{"%m0", 0, true, "", "", {}};
    program_.body = statements(place, 8 + random_.below(20));
    return std::move(program_);
  }

 private:
  Random random_;
  Program program_;
  int names_ = 0;
  bool protocols_ = false;
  int n_protocols_ = 0;
  int calls_ = 0;               // that the program may still make: each brings the functions that it may mean
  Place* here_ = nullptr;

  int name() { return names_++; }
  std::string declare(const char* type, const char* stem) {
    const std::string r = fmt::format("%{}{}", stem, name());
    program_.declarations.push_back(fmt::format(".reg .{} {};", type, r));
    return r;
  }
  static Statement line(std::string text) { return {{std::move(text)}, {}}; }

  std::string predicate() { return fmt::format("%p{}", random_.below(8)); }
  std::string word() { return fmt::format("%r{}", random_.below(16)); }
  /// A word to read.
  std::string value() { return here_ ? source(Type::u32, *here_) : word(); }
  /// A word or predicate to write; `once` collects what was defined.
  std::string result(Type t, std::string& once) {
    if (!once.empty() || random_.one_in(2)) return t == Type::pred ? predicate() : word();
    return once = define_once(t);
  }
  std::string guard() { return random_.one_in(5) ? fmt::format("@{}{} ", random_.one_in(2) ? "!" : "", predicate()) : ""; }

  /// A register that an operand of type `t` may be.
  std::string reg(Type t) { return pool(t); }
  static char class_of_register(Type t) {
    const bool flt = isa::is_float(t);
    switch (isa::bits_of(t)) {
      case 1: return 'p';
      case 16: return 'h';
      case 64: return flt ? 'g' : 'd';
      default: return flt && isa::bits_of(t) == 32 ? 'f' : 'r';
    }
  }
  /// A register that has one definition, so that the analysis of how lanes vary has something to say about it.
  std::string define_once(Type t) {
    const char c = class_of_register(t);
    return declare(c == 'p' ? "pred" : c == 'h' ? "b16" : c == 'd' ? "b64" : c == 'g' ? "f64" : c == 'f' ? "f32" : "b32", (std::string("u") + c).c_str());
  }
  std::string source(Type t, const Place& place) {
    const char c = class_of_register(t);
    std::vector<std::string> fit;
    for (const std::string& r : place.once)
      if (r[2] == c) fit.push_back(r);
    return fit.empty() || random_.one_in(3) ? pool(t) : random_.pick(fit);
  }
  std::string pool(Type t) {
    if (t == Type::pred) return predicate();
    const bool flt = isa::is_float(t) && isa::bits_of(t) >= 32, untyped = isa::class_of(t) == isa::TypeClass::bits;
    switch (isa::bits_of(t)) {
      case 16: return fmt::format("%h{}", random_.below(8));
      case 32: return (flt || untyped) && !random_.one_in(4) && (flt || random_.one_in(3)) ? fmt::format("%f{}", random_.below(8)) : word();
      case 64: return (flt || untyped) && !random_.one_in(4) && (flt || random_.one_in(3)) ? fmt::format("%g{}", random_.below(6)) : fmt::format("%d{}", random_.below(8));
      default: return word();
    }
  }
  std::string immediate(Type t) {
    static const std::vector<uint64_t> kEdges{0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 1023, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe};
    if (t == Type::f32) {
      static const std::vector<uint32_t> kFloats{0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0x7fffffff, 0x00000001, 0x4b800000, 0x4f000000, 0x3dcccccd};
      return fmt::format("0f{:08x}", random_.pick(kFloats));
    }
    if (t == Type::f64) {
      static const std::vector<uint64_t> kDoubles{0, 0x8000000000000000, 0x3ff0000000000000, 0xc000000000000000, 0x7ff0000000000000, 0x7ff8000000000000, 1, 0x41e0000000000000};
      return fmt::format("0d{:016x}", random_.pick(kDoubles));
    }
    const int bits = isa::bits_of(t);
    uint64_t v = random_.one_in(4) ? random_.bits() : random_.pick(kEdges);
    if (bits < 64) v &= (uint64_t{1} << bits) - 1;
    if (isa::is_signed(t)) return fmt::format("{}", int64_t(v << (64 - bits)) >> (64 - bits));
    return fmt::format("{}", v >> 63 ? int64_t(v) : int64_t(v));
  }
  bool takes_immediates(Type t) {
    const isa::TypeClass c = isa::class_of(t);
    return c == isa::TypeClass::bits || c == isa::TypeClass::uint || c == isa::TypeClass::sint || t == Type::f32 || t == Type::f64;
  }

  std::string operand(const OperandSlot& s, const isa::Form& f, const Place& place, std::string* once) {
    Type t = s.type_from == OperandSlot::fixed ? s.type : f.type(s.type_index);
    if (s.type_from == OperandSlot::twice) {
      const bool sign = isa::is_signed(t);
      t = isa::bits_of(t) == 16 ? (sign ? Type::s32 : Type::u32) : (sign ? Type::s64 : Type::u64);
    }
    switch (s.kind) {
      case OperandSlot::imm: return fmt::format("{}", random_.below(256));
      case OperandSlot::pair: {
        const std::string a = reg(t), b = predicate();
        return a == b ? (s.may_single ? a : fmt::format("{}|%p{}", a, (std::atoi(b.c_str() + 2) + 1) % 8)) : fmt::format("{}|{}", a, b);
      }
      case OperandSlot::src:
        if (t != Type::pred && takes_immediates(t) && random_.one_in(5)) return immediate(t);
        return (s.may_negate && random_.one_in(3) ? "!" : "") + source(t, place);
      default:
        if (once && once->empty() && random_.one_in(2)) return *once = define_once(t);
        return reg(t);
    }
  }

  Statement pure(Place& place) {
    const PureForm& f = random_.pick(pure_forms());
    const std::string held = guard();
    std::string text = held + f.name, once;
    for (size_t i = 0; i < f.operands->size(); i++) text += (i ? ", " : " ") + operand((*f.operands)[i], f.form, place, held.empty() ? &once : nullptr);
    if (once.empty()) return line(text + ";");
    place.once.push_back(once);
    return line(text + fmt::format(";  // defines {}.", once));
  }

  /// A register whose lanes vary in a way that is known: the same, consecutive, in rows of the block, ...
  Statement described(Place& place) {
    static const std::vector<std::string> kFrom{"%laneid", "%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ntid.x", "%warpid"};
    const std::string r = define_once(Type::u32), w = declare("b32", "k");
    place.once.push_back(r);
    std::vector<std::string> words;
    for (const std::string& o : place.once)
      if (o[2] == 'r' && o != r) words.push_back(o);
    const std::string from = words.empty() || random_.one_in(3) ? w : random_.pick(words);
    std::string text = from == w ? fmt::format("mov.u32 {}, {}; ", w, random_.pick(kFrom)) : "";
    static const std::vector<std::string> kSteps{"shl.b32 {0}, {1}, {2}", "shl.b32 {0}, {3}, {1}", "shr.u32 {0}, {1}, {2}", "shr.u32 {0}, {4}, {1}", "and.b32 {0}, {1}, {3}", "or.b32 {0}, {1}, {3}", "xor.b32 {0}, {1}, {3}", "add.s32 {0}, {1}, {3}",
                                                 "sub.s32 {0}, {3}, {1}", "mul.lo.s32 {0}, {1}, {3}", "mad.lo.s32 {0}, {1}, {3}, {1}", "mov.b32 {0}, {1}", "neg.s32 {0}, {1}", "bfe.u32 {0}, {1}, {2}, 3", "min.s32 {0}, {1}, {3}"};
    text += fmt::format(fmt::runtime(random_.pick(kSteps)), r, from, random_.below(6), random_.one_in(2) ? (1 << random_.below(8)) - random_.below(2) : random_.below(64) - 20, immediate(Type::u32));
    return line(text + fmt::format(";  // defines {}.", r));
  }

  Statement packing() {
    const std::string r = word(), q = word(), d = fmt::format("%d{}", random_.below(8)), h = fmt::format("%h{}", random_.below(8));
    switch (random_.below(7)) {
      case 0: return line(fmt::format("{}mov.b64 {}, {{{}, {}}};", guard(), d, r, q));
      case 1: return r == q ? line("") : line(fmt::format("mov.b64 {{{}, {}}}, {};", r, q, d));
      case 2: return line(fmt::format("mov.b32 {}, {{{}, %h{}}};", r, h, random_.below(8)));
      case 3: return line(fmt::format("{}mov.b32 {}, %f{};", guard(), r, random_.below(8)));
      case 4: return line(fmt::format("add.cc.u32 {}, {}, {}; addc.cc.u32 {}, {}, {}; addc.u32 {}, {}, 0;", r, q, word(), q, r, word(), word(), word()));
      case 5: return line(fmt::format("sub.cc.u64 {}, {}, %d{}; subc.u64 %d{}, {}, {};", d, d, random_.below(8), random_.below(8), d, immediate(Type::u64)));
      default: {
        static const std::vector<std::string> kSpecials{"%laneid", "%warpid", "%ctaid.x", "%ntid.x", "%nctaid.x", "%tid.x", "%tid.y", "%lanemask_lt", "%lanemask_ge", "%lanemask_eq"};
        return line(fmt::format("{}mov.u32 {}, {};", guard(), r, random_.pick(kSpecials)));
      }
    }
  }

  Statement memory() {
    struct Access { const char* type; int bytes; Type reg; };
    static const std::vector<Access> kAccess{{"b32", 4, Type::b32}, {"u32", 4, Type::u32}, {"b64", 8, Type::b64}, {"f32", 4, Type::f32}, {"f64", 8, Type::f64}, {"u16", 2, Type::b16},
                                             {"u8", 1, Type::u32}, {"s8", 1, Type::u32}, {"b8", 1, Type::u32}};
    const Access& a = random_.pick(kAccess);
    const int at = random_.below(128 / a.bytes / 4) * a.bytes * 4, vec = a.bytes <= 4 && a.bytes > 1 ? random_.below(3) : random_.below(2);
    const std::string v = vec == 0 || a.bytes == 1 ? "" : vec == 1 ? ".v2" : ".v4";
    const int n = v.empty() ? 1 : vec == 1 ? 2 : 4;
    auto list = [&](bool distinct) {
      if (n == 1) return reg(a.reg);
      std::string s = "{";
      const char* stem = a.bytes == 2 ? "h" : a.bytes == 8 ? (a.reg == Type::f64 ? "g" : "d") : a.reg == Type::f32 ? "f" : "r";
      const int pool = a.bytes == 2 ? 8 : a.reg == Type::f64 ? 6 : 8, first = random_.below(pool);
      for (int i = 0; i < n; i++) s += fmt::format("{}%{}{}", i ? ", " : "", stem, distinct ? (first + i) % pool : random_.below(pool));
      return s + "}";
    };
    const std::string index = declare("b32", "i"), address = declare("b64", "a");
    switch (random_.below(8)) {
      case 0: return line(fmt::format("{}st.global{}.{} [%mine+{}], {};", guard(), v, a.type, at, list(false)));
      case 1: return line(fmt::format("{}ld.global{}.{} {}, [%mine+{}];", guard(), v, a.type, list(true), at));
      case 2:  // any address of the input
        return line(fmt::format("and.b32 {0}, {1}, 8176; cvt.u64.u32 {2}, {0}; add.s64 {2}, %in, {2}; {3}ld.global{4}.{5} {6}, [{2}+{7}];", index, value(), address, guard(), v, a.type, list(true), at));
      case 3:  // one address for all lanes, or consecutive ones
        return line(fmt::format("{}ld.global{}.{} {}, [{}+{}];", guard(), random_.one_in(2) ? ".nc" : "", a.type, reg(a.reg), a.bytes <= 4 && random_.one_in(2) ? "%from" : "%in", at));
      case 4: return line(fmt::format("and.b32 {0}, {1}, 48; mov.b32 {2}, loc; add.s32 {0}, {0}, {2}; {3}st.local.{4} [{0}], {5};", index, value(), declare("b32", "i"), guard(), a.type, reg(a.reg)));
      case 5: return line(fmt::format("and.b32 {0}, {1}, 48; mov.b32 {2}, loc; add.s32 {0}, {0}, {2}; {3}ld.local.{4} {5}, [{0}];", index, value(), declare("b32", "i"), guard(), a.type, reg(a.reg)));
      case 6: return line(fmt::format("{}red.global.{} [%state+{}], {};", guard(), random_.one_in(2) ? "add.u32" : random_.one_in(2) ? "max.s32" : "xor.b32", 4 * random_.below(12), value()));
      default: return line(fmt::format("{}atom.global.{} {}, [%mine+{}], {};", guard(), random_.one_in(2) ? "add.u32" : "exch.b32", word(), at & ~3, value()));
    }
  }

  /// Every thread writes its word of shared memory and reads another's.
  Statement exchange() {
    const std::string i = declare("b32", "i"), j = declare("b32", "i");
    static const std::vector<std::string> kBarriers{"bar.sync 0;", "barrier.sync 0;", "bar.sync 0; bar.sync 3;"};
    const std::string bar = random_.pick(kBarriers);
    std::string reduce;
    if (random_.one_in(3)) reduce = fmt::format("bar.red.popc.u32 {}, 0, {};", word(), predicate());
    else if (random_.one_in(3)) reduce = fmt::format("bar.red.{}.pred {}, 0, {};", random_.one_in(2) ? "and" : "or", predicate(), predicate());
    return line(fmt::format("shl.b32 {0}, %thr, 2; mov.b32 {1}, sh; add.s32 {0}, {0}, {1}; st.shared.b32 [{0}+2048], {2}; {3}\nand.b32 {0}, {2}, 127; rem.u32 {0}, {0}, {6}; shl.b32 {0}, {0}, 2; add.s32 {0}, {0}, {1}; "
                            "ld.shared.b32 {4}, [{0}+2048]; {3} {5}", i, j, word(), bar, word(), reduce, program_.block[0] * program_.block[1] * program_.block[2]));
  }

  Statement warp(const Place& place) {
    const std::string m = declare("b32", "k"), j = declare("b32", "k"), p = declare("pred", "q");
    // Part of the members: groups of 8 lanes, or lanes that agree in a bit.
    std::string head;
    const bool split = random_.one_in(3);
    if (split) head = fmt::format("and.b32 {0}, %lan, 24; shl.b32 {0}, 255, {0}; and.b32 {0}, {0}, {1}; ", m, place.members);
    else head = fmt::format("mov.b32 {}, {}; ", m, place.members);
    // A source lane that is a member: the lane itself unless the other one is there.
    const std::string pick = fmt::format("shr.b32 {1}, {0}, {1}; and.b32 {1}, {1}, 1; setp.eq.b32 {2}, {1}, 1; ", m, j, p);
    std::string once;
    auto done = [&](std::string text) {
      if (!once.empty()) here_->once.push_back(once), text += fmt::format("  // defines {}.", once);
      return line(std::move(text));
    };
    switch (random_.below(9)) {
      case 0: {
        const int by = 1 + random_.below(31);
        return line(head + fmt::format("xor.b32 {0}, %lan, {1}; {2}xor.b32 {0}, %lan, {1}; selp.b32 {0}, {0}, %lan, {3}; shfl.sync.idx.b32 {4}, {5}, {0}, 31, {6};", j, split ? by & 7 : by, pick, p, word(), value(), m));
      }
      case 1: {
        const std::string r = word(), v = value();
        return line(head + fmt::format("mov.b32 {0}, {1}; xor.b32 {2}, %lan, {3}; {4}shfl.sync.bfly.b32 {0}, {0}, {3}, 31, {5}; @{6} mov.b32 {7}, {0};", declare("b32", "k"), v, j, 1 + random_.below(split ? 7 : 31), pick, m, p, r));
      }
      case 2: return done(head + fmt::format("vote.sync.ballot.b32 {}, {}{}, {};", result(Type::u32, once), random_.one_in(2) ? "!" : "", predicate(), m));
      case 3: return done(head + fmt::format("vote.sync.{}.pred {}, {}, {};", random_.one_in(2) ? "any" : random_.one_in(2) ? "all" : "uni", result(Type::pred, once), predicate(), m));
      case 4: return done(head + fmt::format("match.any.sync.b32 {}, {}, {};", result(Type::u32, once), value(), m));
      case 5: return done(head + fmt::format("match.all.sync.b32 {}|{}, {}, {};", result(Type::u32, once), predicate(), value(), m));
      case 6: return done(head + fmt::format("redux.sync.{} {}, {}, {};", random_.one_in(2) ? "add.u32" : random_.one_in(2) ? "min.s32" : "xor.b32", result(Type::u32, once), value(), m));
      case 7: return done(head + fmt::format("elect.sync {}|{}, {};", result(Type::u32, once), predicate(), m));
      default: return line(head + fmt::format("bar.warp.sync {};", m));
    }
  }

  /// Members of the lanes for which `p` holds, when the members here are known.
  std::string ballot(const Place& place, const std::string& p, std::string& text) {
    if (place.members.empty() || random_.one_in(3)) return "";
    const std::string m = declare("b32", "m");
    text += fmt::format("vote.sync.ballot.b32 {}, {}, {};\n", m, p, place.members);
    return m;
  }

  Place inside(const Place& place, std::string members) {
    Place p = place;
    p.depth++;
    p.top = false;
    p.members = std::move(members);
    return p;
  }

  Statement branch(const Place& place) {
    const int id = name();
    const std::string p = declare("pred", "q");
    Statement s;
    std::string head = fmt::format("{} {}, {};\n", random_.one_in(3) ? "not.pred" : "mov.pred", p, predicate());
    const std::string yes = ballot(place, p, head);
    head += fmt::format("@!{} bra ELSE{};", p, id);
    s.text.push_back(head);
    s.parts.push_back(statements(inside(place, yes), 1 + random_.below(5)));
    if (random_.one_in(2)) {
      s.text.push_back(fmt::format("ELSE{}:", id));
      return s;
    }
    std::string no;
    std::string middle = fmt::format("bra JOIN{0};\nELSE{0}:\n", id);
    if (!yes.empty()) no = declare("b32", "m"), middle += fmt::format("xor.b32 {}, {}, {};", no, yes, place.members);
    s.text.push_back(middle);
    s.parts.push_back(statements(inside(place, no), 1 + random_.below(4)));
    s.text.push_back(fmt::format("JOIN{}:", id));
    return s;
  }

  Statement loop(const Place& place) {
    const int id = name();
    const std::string c = declare("b32", "c"), t = declare("b32", "c"), p = declare("pred", "q");
    Statement s;
    std::string head = fmt::format("mov.b32 {}, 0; ", c);
    head += random_.one_in(2) ? fmt::format("and.b32 {}, {}, 3;", t, word()) : fmt::format("mov.b32 {}, {};", t, 1 + random_.below(4));
    Place in = inside(place, "");
    std::string m;
    if (!place.members.empty() && random_.one_in(2)) m = declare("b32", "m"), head += fmt::format(" mov.b32 {}, {};", m, place.members);
    head += fmt::format("\nHEAD{0}: setp.lt.u32 {1}, {2}, {3};", id, p, c, t);
    if (!m.empty()) head += fmt::format(" vote.sync.ballot.b32 {0}, {1}, {0};", m, p), in.members = m;
    head += fmt::format(" @!{} bra EXIT{};", p, id);
    if (m.empty()) in.leave = fmt::format("EXIT{}", id), in.again = fmt::format("NEXT{}", id);
    else in.leave = in.again = "";
    s.text.push_back(head);
    s.parts.push_back(statements(in, 1 + random_.below(5)));
    s.text.push_back(fmt::format("NEXT{0}: add.s32 {1}, {1}, 1; bra HEAD{0};\nEXIT{0}:", id, c));
    return s;
  }

  Statement table(const Place& place) {
    const int id = name();
    const std::string i = declare("b32", "i");
    Statement s;
    s.text.push_back(fmt::format("and.b32 {1}, {2}, 3;\nTS{0}: .branchtargets TA{0}, TB{0}, TC{0}, TA{0};\nbrx.idx {1}, TS{0};\nTA{0}:", id, i, word()));
    for (const char* next : {"TB", "TC", "TD"}) {
      s.parts.push_back(statements(inside(place, ""), 1 + random_.below(3)));
      s.text.push_back(fmt::format("{1}{2}{0}:", id, random_.one_in(3) && *(next + 1) != 'D' ? "" : fmt::format("bra TD{};\n", id), next));
    }
    return s;
  }

  Statement one(Place& place) {
    here_ = &place;
    const int kind = random_.below(20);
    if (kind < 6) return pure(place);
    if (kind < 8) return described(place);
    if (kind < 9) return packing();
    if (kind < 11 || (kind < 12 && calls_ == 0)) return memory();
    if (kind < 12) {
      calls_--;
      const std::string a = value();
      return make_call(random_, name(), guard(), a, value(), word());
    }
    if (kind < 14 && !place.members.empty()) return warp(place);
    if (kind < 16 && place.depth < 3) return random_.one_in(6) ? table(place) : branch(place);
    if (kind < 18 && place.depth < 3) return loop(place);
    if (place.top) {
      if (protocols_ && n_protocols_ < 14 && random_.one_in(2)) return make_protocol(random_, name(), n_protocols_++, program_);
      if (!protocols_ && random_.one_in(6)) return line(fmt::format("@{} {}; vote.sync.ballot.b32 %m0, 1, -1;", predicate(), random_.one_in(2) ? "exit" : "ret"));
      return exchange();
    }
    if (!place.leave.empty() && random_.one_in(2)) return line(fmt::format("@{} bra {};", predicate(), random_.one_in(2) ? place.leave : place.again));
    return pure(place);
  }

  std::vector<Statement> statements(Place place, int n) {
    std::vector<Statement> list;
    for (int i = 0; i < n; i++) list.push_back(one(place));
    return list;
  }
};

}  // namespace

Program generate(uint64_t seed) { return Maker(seed).make(); }

}  // namespace differential
