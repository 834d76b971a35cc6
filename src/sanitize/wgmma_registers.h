// sanitize/wgmma_registers.h: which registers of a warp belong to wgmma instructions that may still run.
//
// From its issue until the wait for its group a wgmma owns its accumulators, which nobody may read or write, and its A
// registers, which nobody may write; other wgmma of the same shape may go on with the accumulators. A mov hands the
// ownership on: compilers copy accumulators between two wgmma.
// Source: PTX ISA manual, "Asynchronous warpgroup instructions".
#pragma once
#include <map>
#include <optional>

#include "sanitize/async_order.h"

namespace orrery::sanitize {

class WgmmaRegisters {
 public:
  /// What is wrong with an instruction that uses registers of a wgmma in flight.
  struct Misuse {
    std::string name;   // of the register
    bool accumulator = true, writes = false, uncommitted = false;
    Moment issue;       // of the wgmma
  };

  /// A wgmma is issued. True when it is the first and no wgmma.fence came before it.
  bool issue(const exec::Where& where, const Moment& moment);
  void fence() { fenced_ = true; }
  void commit() { committed_++; }
  void wait(uint32_t left);
  /// Any other instruction.
  std::optional<Misuse> use(const exec::Where& where);

 private:
  struct Owner {
    bool accumulator = true;
    uint32_t group = 0;   // committed groups before its own
    Moment issue;
  };
  std::map<uint32_t, Owner> owned_;  // by register of the function
  uint32_t committed_ = 0;
  bool fenced_ = false, issued_ = false;
};

}  // namespace orrery::sanitize
