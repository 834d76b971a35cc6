// tools/expression.h: arithmetic over named measurements, as calib/figures.toml writes it: numbers, + - * / and parentheses, and
// name[measurement], looked up by the caller.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::tools {

/// Value of one measurement: which table it is in and its name. None: not measured.
using LookUp = std::function<std::optional<double>(const std::string& table, const std::string& name)>;

/// The value of `text`; none when a measurement is missing or a divisor is 0. Throws std::runtime_error for text that is no expression.
std::optional<double> evaluate(std::string_view text, const LookUp& look_up);

}  // namespace orrery::tools
