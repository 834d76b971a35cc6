// base/demangle.h: names of C++ functions as the source has them.
// Not here: what of a name a table shows (tools/time_command.cc).
#pragma once
#include <cxxabi.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace orrery::base {

/// The name as the source has it; the name itself when it is not a mangled one. Before that of what only one of several linked files sees
/// compilers put which: __nv_static_NUMBER__HASH_LENGTH_FILE_HASH_.
inline std::string demangled(const std::string& name) {
  if (name.starts_with("__nv_static_"))
    if (const size_t own = name.find("__Z"); own != name.npos) return demangled(name.substr(own + 1));
  if (!name.starts_with("_Z")) return name;  // "f" would be a type: float
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text ? text : name;
  std::free(text);
  return out;
}

/// Of a demangled function what stands before its parameters: "void ns::scale<float>(float*)" is "void ns::scale<float>". Parts in
/// parentheses that are no parameters ("(anonymous namespace)", template arguments such as "(int)4") stay.
inline std::string without_parameters(const std::string& name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  int depth = 0;
  for (size_t i = 0; i < name.size(); i++) {
    if (name.compare(i, kAnonymous.size(), kAnonymous) == 0) i += kAnonymous.size();
    depth += (name[i] == '<') - (name[i] == '>');
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

/// Of a demangled function its name alone: of "void ns::scale<float>(float*)" it is "scale".
inline std::string function_name(const std::string& name) {
  const std::string whole = without_parameters(name);
  size_t first = 0, last = whole.size();
  int depth = 0;
  for (size_t i = 0; i < whole.size(); i++) {
    if (whole[i] == '<' && depth++ == 0) last = i;
    else if (whole[i] == '>') depth--;
    else if (depth == 0 && (whole[i] == ':' || whole[i] == ' ')) first = i + 1, last = whole.size();
  }
  return whole.substr(first, last - first);
}

/// A demangled name for people to read in a sentence: one of more than `most` characters without its template arguments and parameters.
inline std::string brief(const std::string& name, size_t most = 160) {
  if (name.size() <= most) return name;
  const std::string whole = without_parameters(name);
  return function_name(name) + (whole.ends_with('>') ? "<...>" : "") + (whole.size() < name.size() ? "(...)" : "");
}

}  // namespace orrery::base
