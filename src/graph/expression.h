// Arithmetic of claims: + - * / ^ ( ), numbers such as 1.5e3 and 40%, and the functions log2, ceil, min, max.
#pragma once

#include <string_view>

namespace orrery::graph {

// Value of the expression; throws base::Error at what it cannot read.
double evaluate(std::string_view expression);

}  // namespace orrery::graph
