// What the C interface's functions share: the text of the last error, one for each thread.
#pragma once

#include <string>

namespace orrery::graph {

std::string& model_error();

}  // namespace orrery::graph
