// device/status.h: how an operation of the device ended, in CUDA's own numbering.
//
// Status holds the values that cudaError_t and CUresult share, plus the runtime-only ones; api/ maps the latter for
// driver calls. A failing operation throws Failure; only api/ turns it into a code. The numbers are the ABI's.
// Not here: names and texts of the codes (api/error.def).
#pragma once
#include <string>

#include "base/error.h"

namespace orrery::device {

enum class Status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  invalid_configuration = 9,
  invalid_pitch = 12,
  invalid_symbol = 13,
  invalid_texture = 18,
  invalid_channel_descriptor = 20,
  invalid_memcpy_direction = 21,
  insufficient_driver = 35,
  missing_configuration = 52,
  launch_pending_exceeded = 69,
  invalid_device_function = 98,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  map_failed = 205,
  already_mapped = 208,
  no_binary = 209,
  already_acquired = 210,
  not_mapped = 211,
  unsupported_limit = 215,
  context_in_use = 216,
  peer_unsupported = 217,
  invalid_ptx = 218,
  jit_compiler_not_found = 221,
  unsupported_ptx_version = 222,
  invalid_source = 300,
  file_not_found = 301,
  symbol_not_found = 302,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  peer_already_enabled = 704,
  peer_not_enabled = 705,
  context_active = 708,
  context_destroyed = 709,
  assertion = 710,
  host_already_registered = 712,
  host_not_registered = 713,
  hardware_stack = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failure = 719,
  cooperative_too_large = 720,
  not_permitted = 800,
  not_supported = 801,
  system_not_ready = 802,
  invalid_cluster_size = 912,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_merge = 902,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
  capture_implicit = 906,
  captured_event = 907,
  capture_wrong_thread = 908,
  timeout = 909,
  graph_update_failure = 910,
  unknown = 999,
};

/// An operation that failed; `what()` explains, empty when the code says it all.
class Failure : public base::Error {
 public:
  explicit Failure(Status status, const std::string& text = "") : base::Error(text), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

/// Throws Failure(status) unless `condition` holds.
inline void require(bool condition, Status status) {
  if (!condition) throw Failure(status);
}

}  // namespace orrery::device
