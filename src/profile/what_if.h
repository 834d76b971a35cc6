// profile/what_if.h: what-if settings of a profile.
#pragma once
#include <string_view>

#include "profile/profile.h"

namespace orrery {

/// Sets a field from text, for example "sm.count=144" or "memory.bandwidth=8TB/s"; without a unit the documented one is
/// meant, and hbm. stands for memory. Throws ProfileError when the field is unknown or the value does not fit it.
void set_from_text(Profile& profile, std::string_view setting);

}  // namespace orrery
