// bench/cases.h: the kernels of the table with their arguments and their plain counterparts.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "exec/launch.h"
#include "opencl.h"

namespace bench {

constexpr int kThreads = 2;

struct Case {
  std::string name;
  orrery::exec::Dim3 grid, block;
  std::vector<Argument> args;
  std::function<void()> plain, blas;  // blas: the same by OpenBLAS; empty: no such thing
  double flops = 0, bytes = 0;        // of one run
  int result = -1;                    // argument to compare with the plain result, -1: none
  void* expected = nullptr;
  bool floats = true;
};

/// Every kernel of the table, with buffers in `memory`, which plain C++ uses too. `quick`: small sizes. Cases that are
/// not `wanted` may be left out.
std::vector<Case> make_cases(orrery::exec::DeviceMemory& memory, bool quick, const std::function<bool(const char*)>& wanted);

}  // namespace bench
