// Names and texts of error codes, from error.def.
#include "api/errors.h"

#include <algorithm>
#include <iterator>

namespace orrery::api {
namespace {

struct Row {
  int code;
  const char *runtime, *driver, *text;
};
const Row kRows[] = {
#define ERROR(code, runtime, driver, text) {code, runtime, driver, text},
#include "api/error.def"
#undef ERROR
};

const Row* find(int code) {
  auto at = std::ranges::find(kRows, code, &Row::code);
  return at == std::end(kRows) ? nullptr : at;
}

}  // namespace

const char* runtime_error_name(int code) {
  const Row* row = find(code);
  return row && *row->runtime ? row->runtime : "unrecognized error code";
}

const char* driver_error_name(int code) {
  const Row* row = find(code);
  return row && *row->driver ? row->driver : nullptr;
}

const char* error_text(int code) {
  const Row* row = find(code);
  return row ? row->text : "unrecognized error code";
}

bool is_driver_code(int code) { return driver_error_name(code) != nullptr; }

}  // namespace orrery::api
