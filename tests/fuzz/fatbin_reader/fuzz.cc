// Fuzz target of the fat-binary reader: any bytes are read, unpacked where small, and chosen from.
#include <algorithm>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "device/fatbin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery::device;
  try {
    auto entries = read_fatbin(std::as_bytes(std::span(data, size)));
    for (const FatbinEntry& entry : entries)
      if (entry.unpacked_size < (1u << 24)) unpack(entry);
    choose_ptx(entries, 90);
  } catch (const orrery::base::Error&) {
  }
  return 0;
}
