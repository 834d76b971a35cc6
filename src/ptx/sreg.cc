// ptx/sreg.cc: names of the special registers.
#include "ptx/module.h"

namespace orrery::ptx {

std::string_view name_of(Sreg s) {
  switch (s) {
#define PTX_SREG(name, spelling) case Sreg::name: return spelling;
#define PTX_SREG3(name, spelling)               \
  case Sreg::name##_x: return spelling ".x";    \
  case Sreg::name##_y: return spelling ".y";    \
  case Sreg::name##_z: return spelling ".z";
#include "ptx/sreg.def"
#undef PTX_SREG
#undef PTX_SREG3
    case Sreg::pm: return "%pm";
    case Sreg::envreg: return "%envreg";
    case Sreg::zero: return "%tid.w";
    default: return "";
  }
}

}  // namespace orrery::ptx
