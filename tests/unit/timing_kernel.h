// A kernel of PTX text, ready to be traced or predicted: what the tests of the timing layer share.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "exec/launch.h"
#include "lower/program.h"
#include "profile/profile.h"
#include "ptx/module.h"
#include "timing/predict.h"
#include "timing/trace.h"

namespace orrery::timing {

class TestKernel {
 public:
  /// The kernel `k` with `body`; `parameters` of 64 bits each, p0, p1 and so on.
  TestKernel(const std::string& body, const std::vector<uint64_t>& parameters, exec::Dim3 grid = {1}, exec::Dim3 block = {32}, const std::string& declarations = "") {
    std::string list;
    for (size_t i = 0; i < parameters.size(); i++) list += (i ? ", .param .u64 p" : ".param .u64 p") + std::to_string(i);
    const std::string text = ".version 8.3\n.target sm_90a\n.address_size 64\n" + declarations + "\n.visible .entry k(" + list +
                             ")\n{\n.reg .pred %p<16>;\n.reg .b16 %h<16>;\n.reg .b32 %r<64>;\n.reg .b64 %d<32>;\n.reg .f32 %f<32>;\n.reg .f64 %g<64>;\n" + body + "\n}\n";
    std::vector<ptx::Diagnostic> diagnostics;
    module_ = ptx::parse(text, diagnostics);
    for (const auto& d : diagnostics) ADD_FAILURE() << d.loc.line << ": " << d.message;
    lower::Addresses addresses;
    addresses.var.assign(module_.vars.size(), 0);
    for (uint32_t f = 0; f < module_.functions.size(); f++) addresses.function.push_back(address_of_function(f));
    for (uint32_t f = 0; f < module_.functions.size(); f++)
      if (module_.functions[f].name == "k") launch.kernel = exec::make_kernel(lower::lower_kernel(module_, f, addresses), addresses);
    launch.grid = grid, launch.block = block;
    launch.params.resize(parameters.size() * 8);
    if (!parameters.empty()) std::memcpy(launch.params.data(), parameters.data(), launch.params.size());
  }

  /// What a pointer to function number `f` of the declarations holds.
  static constexpr uint64_t address_of_function(uint32_t f) { return 64 * (f + 1); }

  exec::Launch launch;

 private:
  ptx::Module module_;
};

/// A GPU's memory, and the machine around it.
struct TestMachine {
  TestMachine() { machine.memory = &memory; }
  uint64_t allocate(uint64_t bytes) { return memory.allocate(bytes, exec::MemoryKind::device, 0); }
  std::vector<TracedBlock> trace(const TestKernel& k, TraceOptions options = {}) { return Tracer(machine, k.launch, options).trace(0); }
  Prediction predicted(const TestKernel& k, PredictOptions options = {}, const char* gpu = "h200") {
    return predict(machine, k.launch, load_profile(gpu), options, [](double) {});
  }
  /// What went wrong with a trace.
  std::string error_of(const TestKernel& k, TraceOptions options = {}) {
    try {
      trace(k, options);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  }

  exec::DeviceMemory memory;
  exec::Machine machine;
};

/// The events of a warp that are of one kind.
inline std::vector<Event> events_of(const TracedBlock& block, What what, uint32_t warp = 0) {
  std::vector<Event> out;
  for (const Event& e : block.warps[warp].events)
    if (e.what == what) out.push_back(e);
  return out;
}

}  // namespace orrery::timing
