// api/jit_log.h: the log buffers among the JIT options that programs give with a module or a link.
//
// Invariant: a buffer with room holds a text at any time, and never more than its size. The options must stay valid as long as
// the log does, which the driver's documentation asks for.
// Not here: informational messages, since nothing writes them; all other options, which change nothing.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "device/status.h"

namespace orrery::api {

class JitLog {
 public:
  JitLog(unsigned count, const int* options, void** values) {
    for (unsigned i = 0; i < count; i++) {
      switch (options[i]) {
        case kInfoLog: info_ = static_cast<char*>(values[i]); break;
        case kInfoLogBytes: info_size_ = &values[i]; break;
        case kErrorLog: error_ = static_cast<char*>(values[i]); break;
        case kErrorLogBytes: error_size_ = &values[i]; break;
        default: break;
      }
    }
    capacity_ = error_ ? size_at(error_size_) : 0;
    if (capacity_) *error_ = 0;
    if (info_ && size_at(info_size_)) *info_ = 0;
  }
  /// Does `body`; a failure's text goes into the log of errors, before the failure goes on.
  template <class Body>
  auto log_of(Body body) {
    try {
      return body();
    } catch (const device::Failure& failure) {
      write(failure.what());
      finish();
      throw;
    }
  }
  /// Overwrites the sizes in the caller's options with what the buffers hold, as the driver's documentation has it.
  void finish() const {
    if (info_size_) *info_size_ = nullptr;
    if (error_size_) *error_size_ = reinterpret_cast<void*>(filled_);
  }

 private:
  static constexpr int kInfoLog = 3, kInfoLogBytes = 4, kErrorLog = 5, kErrorLogBytes = 6;  // CU_JIT_{INFO,ERROR}_LOG_BUFFER[_SIZE_BYTES]

  static size_t size_at(void* const* slot) { return slot ? uint32_t(reinterpret_cast<uintptr_t>(*slot)) : 0; }  // the option is an unsigned int
  void write(const std::string& text) {
    if (capacity_ == 0) return;
    filled_ = std::min(capacity_ - 1, text.size());
    std::memcpy(error_, text.data(), filled_);
    error_[filled_] = 0;
  }

  char *info_ = nullptr, *error_ = nullptr;
  void **info_size_ = nullptr, **error_size_ = nullptr;
  size_t capacity_ = 0, filled_ = 0;  // of the log of errors, in bytes
};

}  // namespace orrery::api
