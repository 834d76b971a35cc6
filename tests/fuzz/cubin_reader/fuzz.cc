// Fuzz target of the cubin reader: any bytes are read, for their machine code and for registers alone.
#include <cstdint>
#include <span>

#include "base/error.h"
#include "timing/cubin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    orrery::timing::read_cubin(file);
  } catch (const orrery::base::Error&) {
  }
  try {
    orrery::timing::read_registers(file);
  } catch (const orrery::base::Error&) {
  }
  return 0;
}
