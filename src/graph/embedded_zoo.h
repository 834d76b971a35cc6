// zoo.json as it was when the library was built.
#pragma once

namespace orrery::graph {
extern const char* const kZooText;
}
