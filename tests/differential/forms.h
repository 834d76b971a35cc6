// tests/differential/forms.h: the instruction forms that random programs use, from the instruction table.
#pragma once
#include <string>
#include <vector>

#include "isa/row.h"

namespace differential {

/// One spelling of a row that only computes, with one of its operand lists.
struct PureForm {
  std::string name;
  orrery::isa::Form form;
  const std::vector<orrery::isa::OperandSlot>* operands;
};

/// Every form of sm_90a that only computes and whose operands a random program can make.
const std::vector<PureForm>& pure_forms();

}  // namespace differential
