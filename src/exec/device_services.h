// exec/device_services.h: what device code may call beyond printf, malloc and assert: functions of whatever runs the grid.
//
// A kernel that launches kernels calls functions by name (the CUDA device runtime). The machine around the grid answers
// them: it reads the arguments of one thread at a time through a DeviceCall and gives back a value.
// Invariant: a grid whose kernel calls such functions runs on one worker, so calls come in one order (lower/lower.cc).
// Not here: which functions there are (api/device_runtime.cc).
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace orrery::exec {

struct Stepper;
struct Decoded;

/// A call that one thread makes.
class DeviceCall {
 public:
  DeviceCall(Stepper& stepper, const Decoded& instruction, int lane) : s_(stepper), d_(instruction), lane_(lane) {}

  /// Argument `index` as the caller passed it; zero bytes where it passed less.
  template <class T>
  T argument(size_t index) const {
    T value{};
    copy_argument(index, &value, sizeof value);
    return value;
  }
  /// Writes through a pointer that the thread passed. False when that faulted: the launch ends, the result is not used.
  template <class T>
  bool store(uint64_t address, const T& value) {
    return write(address, &value, sizeof value);
  }
  bool write(uint64_t address, const void* from, uint32_t bytes);
  /// Device malloc and free: 0 without room, false when `address` is no live block.
  uint64_t allocate(uint64_t bytes);
  bool release(uint64_t address);
  /// The number of the thread in its grid.
  uint64_t thread() const;
  bool faulted() const { return faulted_; }

 private:
  void copy_argument(size_t index, void* to, size_t bytes) const;
  Stepper& s_;
  const Decoded& d_;
  const int lane_;
  bool faulted_ = false;
};

/// The functions of one grid in flight.
class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  /// Carries out a call. Nothing: there is no function of that name. Must not throw.
  virtual std::optional<uint64_t> call(std::string_view name, DeviceCall& call) = 0;
};

}  // namespace orrery::exec
