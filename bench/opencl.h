// bench/opencl.h: running kernels.cl with the first OpenCL platform, when there is one.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

/// A kernel argument: a buffer of `bytes` that starts as `host` says, or a 32-bit integer.
struct Argument {
  void* host = nullptr;
  size_t bytes = 0;
  int value = 0;
};

class OpenCl {
 public:
  /// Null when there is no platform or the program does not build.
  static std::unique_ptr<OpenCl> open(const std::string& source);
  ~OpenCl();
  const std::string& name() const;
  /// Prepares a kernel (buffers are made and filled once); run() executes and waits.
  bool prepare(const std::string& kernel, const std::vector<Argument>& args);
  void run(const size_t global[2], const size_t local[2]);
  void release();

 private:
  OpenCl() = default;
  struct State;
  std::unique_ptr<State> state_;
};
