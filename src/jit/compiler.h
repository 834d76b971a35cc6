// jit/compiler.h: compiled code for kernels: from memory, from the disk cache, or made now.
//
//   code_for(kernel, block size) -> ready code, or null while there is none (the interpreter runs)
//
// Modes: off (never), synchronous (the first launch waits for the code), background (a thread compiles, small kernels first;
// launches use code when it is ready). The size of the thread block is part of the key: code is made for it.
// Kernels of many thousand instructions are compiled quickly rather than well (Tier::quick).
// Threads: code_for may be called from any thread.
// Not here: how code is made (emitter.h, target.h), the disk cache (cache.h).
#pragma once
#include <memory>

#include "exec/launch.h"
#include "exec/native.h"

namespace orrery::jit {

enum class Mode { off, synchronous, background };

/// ORRERY_JIT=off|sync|async, else `otherwise`.
Mode mode_from_environment(Mode otherwise);

class Compiler : public exec::CodeProvider {
 public:
  /// `observe`: what its kernels must report (bits kObserve* of exec/observer.h).
  explicit Compiler(Mode mode, unsigned observe = 0);
  ~Compiler() override;
  std::shared_ptr<const exec::NativeCode> code_for(const lower::Program& program, exec::Dim3 block) override;
  std::shared_ptr<const exec::NativeCode> resumable_code_for(const lower::Program& program, exec::Dim3 block) override;
  /// The code when it is there: what the thread has not begun is made here, and only for what it has begun it is waited.
  std::shared_ptr<const exec::NativeCode> wait_for_code(const lower::Program& program, exec::Dim3 block) override;
  /// Waits until the background thread has nothing to do.
  void finish() override;
  /// At the end of the process: forgets what is not compiled yet, without waiting for what is being compiled.
  void abandon() override;

  /// Time of the last compilation, milliseconds, by phase.
  struct Timing { double emit = 0, compile = 0, link = 0; size_t object_bytes = 0; bool from_cache = false; };
  Timing last_timing() const;

 private:
  std::shared_ptr<const exec::NativeCode> code_of(const lower::Program& program, exec::Dim3 block, bool resumable);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery::jit
