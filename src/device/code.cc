#include "device/code.h"

#ifdef ORRERY_HAVE_JIT
#include "jit/compiler.h"
#endif

namespace orrery::device {

std::unique_ptr<exec::CodeProvider> make_code_provider(unsigned observe) {
#ifdef ORRERY_HAVE_JIT
  const jit::Mode mode = jit::mode_from_environment(jit::Mode::background);
  if (mode == jit::Mode::off) return nullptr;
  return std::make_unique<jit::Compiler>(mode, observe);
#else
  (void)observe;
  return nullptr;
#endif
}

}  // namespace orrery::device
