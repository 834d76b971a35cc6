// timing/classify.cc: class of a machine instruction by opcode (bits 0-8). Numbers: docs/timing.md, "machine code".
#include <array>

#include "timing/join.h"

namespace orrery::timing {

namespace {

constexpr std::string_view kNames[] = {
    "alu", "fma", "imad", "imad.wide", "half", "half.mma", "fp64", "xu", "shuffle", "vote", "uniform", "uniform.move", "constant", "special register", "match", "redux", "matrix move",
    "load", "store", "atomic", "shared load", "shared store", "shared atomic", "local load", "local store", "copy async", "matrix load", "texture",
    "hmma", "imma", "dmma", "wgmma", "warpgroup", "tensor copy", "bulk copy", "mbarrier", "barrier", "cluster barrier", "fence", "depbar", "async group",
    "branch", "exit", "control", "sleep", "nop"};
static_assert(std::size(kNames) == size_t(Class::count));

constexpr std::array<Class, 512> make_table() {
  std::array<Class, 512> t{};
  for (Class& c : t) c = Class::alu;
  auto set = [&](Class c, std::initializer_list<int> ops) {
    for (int op : ops) t[size_t(op)] = c;
  };
  set(Class::fma, {0x020, 0x021, 0x023, 0x036});               // FMUL FADD FFMA VIADD
  set(Class::imad, {0x024, 0x026});                            // IMAD IDP
  set(Class::imad_wide, {0x025, 0x027});
  set(Class::half, {0x030, 0x031, 0x032, 0x034});            // HADD2 HFMA2 HMUL2 HSETP2
  set(Class::half_mma, {0x035});
  set(Class::fp64, {0x028, 0x029, 0x02a, 0x02b});
  set(Class::imma, {0x037, 0x03d});                            // the last, BMMA: of single bits
  set(Class::hmma, {0x03c});
  set(Class::dmma, {0x03f});
  set(Class::matrix_move, {0x03a});                            // MOVM
  set(Class::matrix_load, {0x03b});                            // LDSM
  set(Class::shared_store, {0x044});                           // STSM
  set(Class::uniform, {0x086, 0x087, 0x08c, 0x090, 0x091, 0x092, 0x096, 0x097, 0x099, 0x09c, 0x0a4, 0x0a5, 0x0bd, 0x0bf, 0x0ca});
  set(Class::uniform_move, {0x082, 0x0b9});
  set(Class::xu, {0x100, 0x101, 0x102, 0x104, 0x105, 0x106, 0x107, 0x108, 0x109, 0x110, 0x111, 0x112});
  set(Class::vote, {0x006});
  set(Class::nop, {0x118, 0x02e});
  set(Class::special_register, {0x119, 0x1c3, 0x005, 0x16f});  // the last, TXQ: a fact of a texture
  set(Class::depbar, {0x11a});
  set(Class::barrier, {0x11d, 0x11c});
  set(Class::branch, {kBranch, 0x143, 0x144, 0x149, 0x150, 0x158});
  set(Class::control, {0x141, 0x142, 0x145, 0x146, 0x148, 0x11b, 0x155, 0x156, 0x14e, 0x15c, 0x02d, 0x02f, 0x1c8});
  set(Class::exit, {0x14d});
  set(Class::sleep, {0x15d});
  set(Class::texture, {0x160, 0x161, 0x163, 0x164, 0x166, 0x167, 0x16c, 0x16d, 0x199, 0x19b, 0x19d});  // TEX TLD4 TLD TXD SULD SUST.P SUST
  set(Class::load, {0x180, 0x181});
  set(Class::constant, {0x182});
  set(Class::local_load, {0x183});
  set(Class::shared_load, {0x184});
  set(Class::store, {0x185, 0x186});
  set(Class::local_store, {0x187});
  set(Class::shared_store, {0x188, 0x044});
  set(Class::shuffle, {0x189});
  set(Class::atomic, {0x18a, 0x18b, 0x18e, 0x19f, 0x1a2, 0x1a3, 0x1a6, 0x1a8, 0x1a9});
  set(Class::shared_atomic, {0x18c, 0x18d});
  set(Class::fence, {0x18f, 0x192, 0x1ab, 0x1c6});
  set(Class::match, {0x1a1});
  set(Class::mbarrier, {0x1a7, 0x1b1, 0x1b2, 0x1b0, 0x1bd, 0x1be});   // the last two, STAS and REDAS: tell one when they have stored or added
  set(Class::alu, {0x1aa});
  set(Class::copy_async, {0x1ae});
  set(Class::async_group, {0x1af, 0x1b7});
  set(Class::tensor_copy, {0x1b4, 0x1b5, 0x1b6, 0x1b9});
  set(Class::bulk_copy, {0x1ba, 0x1bb});
  set(Class::redux, {0x1c4});
  set(Class::warpgroup, {0x1c5});
  set(Class::cluster_barrier, {0x1c7});
  set(Class::wgmma, {0x1f0, 0x1f1, 0x1f2, 0x1f3});             // HGMMA IGMMA BGMMA QGMMA
  return t;
}

constexpr std::array<Class, 512> kTable = make_table();

}  // namespace

std::string_view name_of(Class c) { return kNames[size_t(c)]; }

Class class_of(uint16_t opcode) { return kTable[opcode & 511]; }

}  // namespace orrery::timing
