// tests/differential/walks.cc: loops in which a grid walks through memory, by rows, columns or a grid's width. See generate.h.
//
// Compiled code runs these in orders of its own (all warps of a block take turns at every iteration, rounds that can be
// foreseen run without checks) only where little else is alive, so the programs here are lean: see Program::lean.
// Every address stays inside `in`; stores go to words of `state` of which each belongs to one thread.
#include <fmt/format.h>

#include <algorithm>

#include "generate.h"

namespace differential {

namespace {

struct Element {
  const char *type, *reg;
  int bytes;
};

constexpr Element kElements[] = {{"b32", "t", 4}, {"u32", "t", 4}, {"f32", "t", 4}, {"u16", "t", 2}, {"s8", "t", 1}, {"b64", "y", 8}, {"f64", "y", 8}};

/// One loop; everything it declares has the id in its name.
class Walk {
 public:
  Walk(Random& random, int id, const Program& program) : random_(random), id_(id), program_(program) {
    element_ = kElements[random.below(7)];
    vector_ = element_.bytes < 4 || random.one_in(2) ? 1 : element_.bytes == 8 || random.one_in(2) ? 2 : 4;
    elements_ = int64_t{kInWords} * 4 / (element_.bytes * vector_);
  }

  Statement make() {
    const int kind = random_.below(5);
    return {{kind == 0 ? column() : kind == 1 ? whole_grid() : rows()}, {}};
  }

 private:
  Random& random_;
  int id_;
  const Program& program_;
  Element element_;
  int vector_;
  int64_t elements_;  // of `in`

  int64_t block() const { return int64_t{program_.block[0]} * program_.block[1]; }
  int64_t size() const { return element_.bytes * vector_; }

  /// for (i = start; i < bound; i += step), index scaled by the element or a pointer that moves along.
  std::string rows() {
    const bool down = random_.one_in(8), by_block = random_.one_in(3);
    const int64_t step = random_.one_in(8) ? 1 + random_.below(300) : block() * (1 + random_.below(3));
    const int64_t room = elements_ - 4 * step - 1024, length = std::max<int64_t>(1, std::min<int64_t>(room, (1 + random_.below(60)) * step + random_.below(int(step))));
    const int64_t apart = by_block ? std::max<int64_t>(0, (room - length) / program_.grid) : 0;
    std::string s = by_block ? fmt::format("mov.u32 %i{0}, %ctaid.x; mul.lo.s32 %o{0}, %i{0}, {1}; ", id_, apart) : fmt::format("mov.b32 %o{0}, 0; ", id_);
    const std::string first = random_.one_in(4) ? "%gid" : random_.one_in(8) ? "%lan" : "%thr";
    s += fmt::format("add.s32 %i{0}, {1}, %o{0}; add.s32 %b{0}, %o{0}, {2}; ", id_, first, first == "%gid" ? length + block() * program_.grid : length);
    if (random_.one_in(5)) s += fmt::format("and.b32 %c{0}, %lan, 7; add.s32 %b{0}, %b{0}, %c{0}; ", id_);  // lanes end apart
    if (down) s += fmt::format("mov.b32 %c{0}, {1}; sub.s32 %i{0}, %c{0}, %i{0}; mov.b32 %b{0}, {2}; ", id_, elements_ - 64, std::max<int64_t>(0, elements_ - length - apart * program_.grid - 512));
    return loop(s, step, "", down, false);
  }

  /// Every thread of the grid has elements of its own: it may store to them.
  std::string whole_grid() {
    const bool stores = program_.block[1] == 1 && random_.one_in(2);
    const int64_t last = std::min<int64_t>(elements_ - 2100, stores ? kWalkBytes / 4 - 1 : kInWords);
    const std::string s = fmt::format("mov.u32 %c{0}, %nctaid.x; mov.u32 %s{0}, %ntid.x; mul.lo.s32 %s{0}, %c{0}, %s{0}; mov.b32 %i{0}, %gid; mov.b32 %b{0}, {1}; ", id_, 1 + random_.below(int(last)));
    return loop(s, 0, fmt::format("%s{}", id_), false, stores);
  }

  /// A column of a matrix that all warps read, and what multiplies it.
  std::string column() {
    static const std::vector<int> kWidths{512, 600, 1024, 2048, 4096};
    const int width = random_.pick(kWidths), height = kInWords / width;
    return fmt::format(R"({{
.reg .pred %q<2>; .reg .b32 %i{0}, %t<4>, %c{0}; .reg .b64 %a{0}, %e{0}; .reg .f32 %v<2>;
mov.u32 %c{0}, %tid.{1}; and.b32 %c{0}, %c{0}, 511; mul.wide.u32 %a{0}, %c{0}, 4; add.s64 %a{0}, %in, %a{0}; mov.b64 %e{0}, %in; mov.b32 %i{0}, 0;
HEAD{0}: ld.global.f32 %v0, [%a{0}]; ld.global.b32 %t0, [%e{0}+{2}]; ld.global.b32 %t1, [%a{0}];
fma.rn.f32 %f0, %v0, 0f3f000000, %f0; mad.lo.s32 %r0, %t0, %t1, %r0;
add.s64 %a{0}, %a{0}, {3}; add.s64 %e{0}, %e{0}, 4; add.s32 %i{0}, %i{0}, 1; setp.lt.{4}32 %q0, %i{0}, {5}; @%q0 bra HEAD{0};
}})", id_, random_.one_in(3) ? 'y' : 'x', 4 * random_.below(8), 4 * width, random_.one_in(2) ? 's' : 'u', 1 + random_.below(height - 1));
  }

  /// Adds what was loaded to the results.
  std::string use(int k) const {
    const std::string t = fmt::format("%{}{}", element_.reg, k);
    if (element_.bytes == 8) return fmt::format("mov.b64 {{%t6, %t7}}, {}; add.s32 %r0, %r0, %t6; xor.b32 %r1, %r1, %t7; ", t);
    if (element_.type[0] == 'f') return fmt::format("mov.b32 %v0, {}; add.f32 %f0, %f0, %v0; ", t);
    return fmt::format("mad.lo.s32 %r0, {0}, 3, %r0; max.s32 %r1, %r1, {0}; ", t);
  }

  std::string loop(std::string head, int64_t step, const std::string& by, bool down, bool stores) {
    const bool moves_pointer = by.empty() && random_.one_in(2), tests_first = random_.one_in(2), leaves = random_.one_in(10);
    const int copies = by.empty() && random_.one_in(3) ? 4 : 1;
    std::string list;
    for (int k = 0; k < vector_; k++) list += fmt::format("{}%{}{}", k ? ", " : "", element_.reg, k);
    if (vector_ > 1) list = "{" + list + "}";
    const std::string load = fmt::format("ld.global{}.{} {}", vector_ == 1 ? "" : fmt::format(".v{}", vector_), element_.type, list);
    const std::string address = random_.one_in(2) ? fmt::format("mul.wide.{1}32 %a{0}, %i{0}, {2}; add.s64 %a{0}, %in, %a{0}; ", id_, random_.one_in(2) ? 's' : 'u', size())
                                                  : fmt::format("cvt.s64.s32 %a{0}, %i{0}; mad.lo.s64 %a{0}, %a{0}, {1}, %in; ", id_, size());
    const std::string compare = fmt::format("setp.{1}.{2}32 %q0, %i{0}, %b{0}; ", id_, down ? (random_.one_in(2) ? "gt" : "ge") : random_.one_in(3) ? "le" : "lt", random_.one_in(6) && !down ? 'u' : 's');
    std::string body = moves_pointer ? "" : address;
    for (int k = 0; k < copies; k++) {
      if (copies > 1 && k) body += fmt::format("add.s32 %i{0}, %i{0}, {1}; {2}@!%q0 bra END{0}; ", id_, down ? -step : step, compare);
      if (copies > 1 && k && !moves_pointer) body += address;
      body += fmt::format("{}, [%a{}+{}]; ", load, id_, copies > 1 && k && moves_pointer ? (down ? -1 : 1) * k * step * size() : 0);
      for (int n = 0; n < vector_; n++) body += use(n);
    }
    if (random_.one_in(4)) body += "setp.gt.s32 %q1, %r1, 0; selp.b32 %t5, 1, 2, %q1; add.s32 %r2, %r2, %t5; ";
    if (random_.one_in(6)) body += "setp.lt.s32 %q1, %r0, 0; @%q1 add.s32 %r3, %r3, 1; ";
    if (stores) body += fmt::format("mul.wide.u32 %x0, %i{0}, 4; add.s64 %x0, %state, %x0; st.global.b32 [%x0+{1}], %r0; ", id_, kStateBytes);
    if (leaves) body += fmt::format("setp.eq.s32 %q1, %r0, 1234567; @%q1 bra END{}; ", id_);
    const std::string on = by.empty() ? fmt::format("add.s32 %i{0}, %i{0}, {1}; ", id_, down ? -step : step) : fmt::format("add.s32 %i{0}, %i{0}, {1}; ", id_, by);
    if (moves_pointer) body += fmt::format("add.s64 %a{0}, %a{0}, {1}; ", id_, (down ? -1 : 1) * copies * step * size());
    std::string s = fmt::format("{{\n.reg .pred %q<2>; .reg .b32 %i{0}, %b{0}, %c{0}, %o{0}, %s{0}, %t<8>; .reg .b64 %a{0}, %y<4>; .reg .f32 %v<2>;\n{1}\n{2}", id_, head, moves_pointer ? address : "");
    if (tests_first) return s + fmt::format("\nHEAD{0}: {1}@!%q0 bra END{0};\n{2}{3}bra HEAD{0};\nEND{0}:\n}}", id_, compare, body, on);
    return s + fmt::format("{1}@!%q0 bra END{0};\nHEAD{0}: {2}{3}{1}@%q0 bra HEAD{0};\nEND{0}:\n}}", id_, compare, body, on);
  }
};

}  // namespace

Program generate_walks(uint64_t seed) {
  static const uint32_t kBlocks[][2] = {{96, 1}, {128, 1}, {256, 1}, {512, 1}, {32, 4}, {128, 1}, {16, 16}, {256, 1}, {80, 1}};
  Random random{seed * 0x9e3779b97f4a7c15ull + 77};
  Program program;
  program.seed = seed, program.lean = true;
  const uint32_t* block = kBlocks[random.below(9)];
  program.block[0] = block[0], program.block[1] = block[1];
  program.grid = 1 + uint32_t(random.below(int(kMaxThreads / (block[0] * block[1]))));
  const int walks = random.one_in(3) ? 2 : 1;
  for (int i = 0; i < walks; i++) program.body.push_back(Walk(random, i, program).make());
  return program;
}

}  // namespace differential
