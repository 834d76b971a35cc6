// timing/fetch_size.h: how much of memory L2 fetches with what it is asked for.
#pragma once
#include <cstdint>

namespace orrery::timing {

/// What memory gives of what L2 does not have: 64 bytes, the line, or the other line of its 256 bytes, too. A load, a copy or a tensor map
/// says so (.L2::128B, .L2::256B, L2 promotion) [calib/steps/hinted.cu].
enum class FetchSize : uint8_t { half, line, pair };

}  // namespace orrery::timing
