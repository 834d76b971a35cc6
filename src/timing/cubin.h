// timing/cubin.h: reads the machine code of a kernel from a cubin: instructions, control bits, lines, resources.
//
// A cubin is an ELF file: .text.NAME holds 16-byte instructions; .nv_debug_line_sass is a DWARF 2 line program for each
// function (from ptxas -lineinfo) that gives every instruction a line of the PTX input; .nv.info has the
// number of registers; .nv.shared.NAME is static shared memory.
// Control bits (105 to 125): stall, yield, write and read dependence barrier, wait mask, operand reuse.
// Not here: what instructions mean in time (classify.h). Source: own measurements on ptxas 13.0 output, docs/timing.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace orrery::timing {

inline constexpr uint16_t kBranch = 0x147;  // BRA

struct Instruction {
  uint64_t lo = 0, hi = 0;
  uint32_t line = 0;          // of the PTX text, 0 when unknown
  uint16_t opcode = 0;        // bits 0-8
  uint8_t form = 0;           // bits 9-11
  uint8_t stall = 0;          // cycles until the warp may issue again
  uint8_t write_barrier = 7;  // 7: none
  uint8_t read_barrier = 7;
  uint8_t wait_mask = 0;
  bool yields = false;
  bool guarded = false;       // has a guard other than PT
  bool never = false;         // guarded by !PT
  int32_t target = -1;        // index of the instruction that a branch goes to
  /// A call whose target a register holds.
  bool jumps_by_table() const { return opcode == 0x149 || opcode == 0x158; }  // BRX, BRXU: where to, a table says
  bool calls_register() const { return opcode == 0x144 && form == 1; }
};

struct MachineCode {
  std::string name;
  std::vector<Instruction> code;
  uint32_t registers = 0, shared_bytes = 0;
  /// Start (index) of functions inside this section, such as division's slow path; sorted, without the kernel itself.
  std::vector<uint32_t> inner_functions;
};

/// The text sections of a cubin. Throws base::Error when the file is not one.
std::vector<MachineCode> read_cubin(std::span<const std::byte> file);
/// Registers a thread of each function, by name, and nothing else. Throws base::Error as well.
std::map<std::string, uint32_t> read_registers(std::span<const std::byte> file);

}  // namespace orrery::timing
