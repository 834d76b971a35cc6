// exec/gpu_facts.h: the facts of a GPU profile that execution depends on.
#pragma once
#include "exec/launch.h"
#include "profile/profile.h"

namespace orrery::exec {

/// Limits, sizes and the architecture of a profile. Throws MissingField when the profile lacks one.
GpuFacts facts_of(const Profile& profile);

}  // namespace orrery::exec
