// orrery/gpu.h: a simulated GPU inside this process: load PTX, allocate, launch, read results.
//
//   orrery::Gpu gpu({.profile = "h100"});
//   float* x = static_cast<float*>(gpu.allocate(1024 * sizeof(float)));      // host code may read and write it
//   orrery::Kernel scale = gpu.load(ptx_text).kernel("scale");
//   orrery::LaunchReport report = scale.launch({.grid = {4}, .block = {256}}, {x, 2.0f, 1024u});
//   if (report.fault) std::puts(report.fault->message.c_str());
//
// Device memory is host memory: the same address means the same byte on both sides. A launch returns when the grid has
// ended. Unmodified CUDA programs need none of this: they run under `orrery run`.
// Threads: a Gpu may be used by several threads; each launch uses the workers that the options allow.
// Errors: what the caller did wrong throws orrery::Error; what a kernel does wrong is LaunchReport::fault.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#define ORRERY_EXPORT __attribute__((visibility("default")))

namespace orrery {

/// A call that cannot be carried out; what() says what, where and what to do.
class ORRERY_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Extent {
  uint32_t x = 1, y = 1, z = 1;
};

struct GpuOptions {
  std::string profile = "h200";              // built-in GPU or profile file; `orrery gpus` lists them
  unsigned threads = 0;                      // host threads that run blocks; 0: one per core
  std::optional<uint64_t> schedule_seed = {};    // explore another interleaving of warps and blocks
  double timeout_seconds = 0;                // per launch; 0: none
  bool interpret = false;                    // do not compile kernels
  std::string checks = {};                   // "all", or names as for `orrery check`; kernels are interpreted then
  std::function<void(std::string_view)> print = {};  // text of device printf and assert; default: standard output
};

/// The first thing that went wrong in a launch.
struct FaultReport {
  std::string kind;                          // "illegal address", "hang", ...
  std::string message;                       // what, where, what to do
  std::string kernel, function;
  uint32_t ptx_line = 0;
  std::string source_file;                   // with source_line, when the PTX names them
  uint32_t source_line = 0;
  Extent block{0, 0, 0}, thread{0, 0, 0};
  uint64_t address = 0;
};

struct LaunchReport {
  std::optional<FaultReport> fault;
  uint64_t warp_instructions = 0;            // executed; an estimate by basic blocks in compiled code
  double seconds = 0;                        // of host time
};

/// A mistake that a check found (docs/check.md).
struct Finding {
  std::string check, kind, severity;         // "memcheck", "out-of-bounds", "error"
  std::string message, remedy;
  std::string kernel, source_file, instruction;
  uint32_t source_line = 0, ptx_line = 0;
  uint64_t count = 1;                        // times it happened
};
struct CheckReport {
  std::vector<Finding> findings;
  std::string text, json;                    // for people; as one document
};

/// A kernel argument: any trivially copyable value, passed byte for byte.
class Argument {
 public:
  template <class T, class = std::enable_if_t<std::is_trivially_copyable_v<T>>>
  Argument(const T& value) : bytes_(sizeof(T)) {
    std::memcpy(bytes_.data(), &value, sizeof(T));
  }
  explicit Argument(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

struct LaunchShape {
  Extent grid = {}, block = {}, cluster = {};
  uint32_t dynamic_shared = 0;               // bytes
  bool cooperative = false;                  // all blocks must be resident; grid barriers are allowed
};

/// What a kernel needs.
struct KernelNeeds {
  size_t instructions = 0;                   // of its own body
  uint32_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;   // static shared; local per thread
  uint64_t register_frame_bytes = 0;         // of host memory per warp
  std::vector<std::string> unsupported;      // would stop a launch that reaches them
};

/// A kernel of a loaded module; keeps the module and the GPU alive.
class ORRERY_EXPORT Kernel {
 public:
  const std::string& name() const;
  /// Bytes of each parameter, in order.
  std::vector<uint32_t> parameter_sizes() const;
  KernelNeeds needs() const;
  /// Runs the grid to its end or first fault. Throws Error when count or sizes of the arguments do not fit the
  /// kernel's parameters, or the shape is beyond the limits of the GPU.
  LaunchReport launch(const LaunchShape& shape, const std::vector<Argument>& arguments) const;

 private:
  friend class Module;
  struct State;
  explicit Kernel(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// A loaded PTX text: its variables are placed and initialised. Keeps the GPU alive.
class ORRERY_EXPORT Module {
 public:
  std::vector<std::string> kernels() const;
  /// The kernel of that name; with no name, the first. Throws Error that lists the kernels there are.
  Kernel kernel(std::string_view name = {}) const;
  /// Address of a global or constant variable, null when there is none; `bytes` gets its size.
  void* variable(std::string_view name, size_t* bytes = nullptr) const;

 private:
  friend class Gpu;
  friend class Kernel;
  struct State;
  explicit Module(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class ORRERY_EXPORT Gpu {
 public:
  /// Throws Error when there is no such profile.
  explicit Gpu(GpuOptions options = {});
  /// Zero-filled device memory of `bytes` > 0, aligned to 512 or more. Throws Error when there is no room.
  void* allocate(size_t bytes);
  /// Throws Error when `memory` is not the start of a live allocation.
  void release(void* memory);
  /// Tells the checks that the host has written `bytes` of device memory; without checks it does nothing.
  void wrote(const void* memory, size_t bytes);
  /// What the checks have found so far in all launches. Empty without GpuOptions::checks.
  CheckReport check_report();
  /// Throws Error with every diagnostic as "origin:line:column: text".
  Module load(std::string_view ptx, std::string_view origin = "ptx");

 private:
  friend class Module;
  friend class Kernel;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace orrery
