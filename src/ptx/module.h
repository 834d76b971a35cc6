// ptx/module.h: one PTX module as data.
//
// The parser makes a Module from text; the linker joins several; lower/ resolves one function of it into a Program.
// Every reference between parts is an index, so a Module can be copied, and nothing points into the text.
//
//   Module     variables, functions, debug files
//   Function   parameters, local variables, registers, labels, instructions, launch directives
//   Instr      a Form (what the dotted name says), a guard and operands
//   Operand    register, immediate, address, label, symbol, special register, vector or pair of these
//
// Invariant of a Module that the parser returned without errors: every index is in range, every Instr has a row in
// isa/ptx.def that accepts its form and its operand kinds.
//
// Not here: meaning of instructions (sem/, exec/), control-flow graph (lower/), addresses of variables (device/).
// Source: PTX ISA manual, chapters 4, 5, 7, 10 (special registers) and 11 (directives).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/form.h"

namespace orrery::ptx {

/// Where something stands: line and column in the PTX text (from 1), and the source line that .loc gave it.
struct Loc {
  uint32_t line = 0, column = 0;
  uint32_t file = 0;         // number of the .file directive, 0 when unknown
  uint32_t source_line = 0;  // 0 when unknown
  uint32_t inlined = 0;      // index in Module::call_sites of the call that was inlined here, 0: none
};

enum class OperandKind : uint8_t {
  none,
  reg,       // id = register
  imm,       // value = bits (integers: 64-bit two's complement; floats: see is_float)
  sreg,      // id = Sreg; envreg and pm: value = number (pm: + 64 for the 64-bit form)
  address,   // [base + value]: base says what id means; parts = the coordinates after a tensor map or texture
  label,     // id = label
  var,       // id = module variable, value = addend (address of a variable as a value)
  local_var, // id = function-local variable (params included), value = addend
  func,      // id = function of the module
  vec,       // {a, b, ...}: parts
  pair,      // a|b: parts (setp p|q, shfl d|p, mbarrier and elect pairs)
  sink,      // _
  prototype, // id = call prototype or call-target list of the function
};
enum class BaseKind : uint8_t { none, reg, var, local_var };

struct Operand {
  OperandKind kind = OperandKind::none;
  BaseKind base = BaseKind::none;  // address only
  bool negated = false;            // !p, or -r / -imm where PTX allows it on an operand
  bool is_float = false;           // imm was written as 0f, 0d or decimal floating point
  bool has_sampler = false;        // address only: parts[0] is a sampler, the coordinates follow it
  uint8_t float_bits = 0;          // 32 for 0f, 64 for 0d and decimal; value holds these bits
  isa::Mod selector = isa::Mod::count;  // .b0 .. .b3, .h0, .h1 of video operands; count when none
  uint32_t id = 0;
  int64_t value = 0;
  std::vector<Operand> parts;
  bool operator==(const Operand&) const = default;
};

constexpr uint32_t kNoReg = UINT32_MAX;
struct Guard {
  uint32_t reg = kNoReg;  // predicate register; kNoReg: always
  bool negated = false;
  bool operator==(const Guard&) const = default;
};

struct Instr {
  isa::Form form;
  Guard guard;
  std::vector<Operand> ops;  // in the order of the text, destinations first
  Loc loc;
};

enum class Linkage : uint8_t { internal, visible, extern_, weak, common };

/// A place inside a variable's initial value that holds an address.
struct Reloc {
  uint64_t offset = 0;
  std::string symbol;     // variable or function
  int64_t addend = 0;
  uint8_t size = 8;       // bytes written
  uint64_t mask = 0;      // 0: the whole address; else the PTX mask() operator (0xFF, 0xFF00, ...)
  bool generic = false;   // generic(symbol): address in the generic space
};

struct Var {
  std::string name;
  isa::Space space = isa::Space::none;
  isa::Type type = isa::Type::none;
  Linkage linkage = Linkage::internal;
  uint32_t align = 1;
  uint64_t size = 0;          // bytes; 0 for an unsized extern array (dynamic shared memory)
  bool unsized = false;
  bool managed = false;       // .attribute(.managed)
  bool is_reg = false;        // a .reg parameter of a .func; reg is its register
  uint32_t reg = 0;
  std::vector<uint8_t> init;  // empty: zero; else size bytes (trailing zeros may be missing)
  std::vector<Reloc> relocs;
  Loc loc;
};

struct Register {
  std::string name;
  isa::Type type = isa::Type::none;
};
struct Label {
  std::string name;
  uint32_t target = 0;  // index of the instruction it stands before; body.size() at the end
};

/// `.callprototype`, `.calltargets` or `.branchtargets`.
struct Prototype {
  std::string name;
  std::vector<Var> rets, params;
  std::vector<uint32_t> targets;  // functions (.calltargets) or labels (.branchtargets)
  bool noreturn = false;
  enum Kind : uint8_t { signature, call_targets, branch_targets } kind = signature;
};

struct Directives {
  uint32_t maxntid[3] = {0, 0, 0}, reqntid[3] = {0, 0, 0}, reqnctapercluster[3] = {0, 0, 0};
  uint32_t minnctapersm = 0, maxnreg = 0, maxclusterrank = 0;
  bool explicit_cluster = false, noreturn = false;
};

struct Function {
  std::string name;
  Linkage linkage = Linkage::internal;
  bool is_entry = false, has_body = false;
  std::vector<Var> locals;     // all function-scope variables: first rets, then params, then the body's
  uint32_t n_rets = 0, n_params = 0;
  std::vector<Register> regs;
  std::vector<Label> labels;
  std::vector<Prototype> prototypes;
  std::vector<Instr> body;
  Directives directives;
  Loc loc;
};

struct Module {
  uint32_t version_major = 0, version_minor = 0;
  std::string target;          // "sm_90a"
  bool texmode_independent = false, debug = false;
  uint32_t address_size = 64;
  std::vector<Var> vars;
  std::vector<Function> functions;
  std::vector<std::string> files;  // by .file number; [0] is empty
  std::vector<Loc> call_sites;     // calls that were inlined: file, source_line, and the call around it (inlined); [0] is empty
  std::string text;                // the PTX text itself, for messages and reports
  bool relocatable = false;        // compiled to be linked with others, as -rdc=true does
};

/// Special registers (PTX manual, chapter 10). A vector register such as %tid is its components.
enum class Sreg : uint16_t {
  none, tid_x, tid_y, tid_z, ntid_x, ntid_y, ntid_z, laneid, warpid, nwarpid,
  ctaid_x, ctaid_y, ctaid_z, nctaid_x, nctaid_y, nctaid_z, smid, nsmid, gridid,
  is_explicit_cluster, clusterid_x, clusterid_y, clusterid_z, nclusterid_x, nclusterid_y, nclusterid_z,
  cluster_ctaid_x, cluster_ctaid_y, cluster_ctaid_z, cluster_nctaid_x, cluster_nctaid_y, cluster_nctaid_z,
  cluster_ctarank, cluster_nctarank,
  lanemask_eq, lanemask_le, lanemask_lt, lanemask_ge, lanemask_gt,
  clock, clock_hi, clock64, globaltimer, globaltimer_lo, globaltimer_hi,
  reserved_smem_offset_begin, reserved_smem_offset_end, reserved_smem_offset_cap, reserved_smem_offset_0,
  reserved_smem_offset_1, total_smem_size, aggr_smem_size, dynamic_smem_size, current_graph_exec, pm, envreg,
  zero,  // a component that does not exist, such as %tid.w
  count
};
std::string_view name_of(Sreg s);

struct Diagnostic {
  Loc loc;
  std::string message;  // one sentence, what is wrong and what is accepted instead
};

/// Parses PTX text (`.version` 6.0 to 9.x). On any error `diagnostics` is not empty, holds all of them in the order of
/// the text, and the module must not be used. Never throws on bad input.
Module parse(std::string_view text, std::vector<Diagnostic>& diagnostics);

/// Joins modules (relocatable device code): extern variables and functions meet their definitions by name.
/// `diagnostics` names unresolved and doubly defined symbols. The text of the result is all texts in order, and line
/// numbers count in it; a name that only one module sees may get a suffix when another module uses it too.
Module link(std::vector<Module> modules, std::vector<Diagnostic>& diagnostics);

/// The instruction as PTX text, with the function's names.
std::string to_string(const Module& module, const Function& function, const Instr& instr);

/// The whole module as PTX text; parsing it gives the same functions and variables (scopes are flattened, .pragma and
/// DWARF sections are gone).
std::string to_string(const Module& module);

/// Functions that a program may call without defining them, such as vprintf and malloc: the machine supplies them.
bool is_system_function(std::string_view name);

}  // namespace orrery::ptx
