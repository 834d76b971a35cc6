// Where measured data lies: $ORRERY_SHARED, or ../shared beside the checkout. Tests that need it skip by
// name.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace orrery {

inline std::string model_data(const char* file) {
  const char* env = std::getenv("ORRERY_SHARED");
  std::filesystem::path base =
      env ? std::filesystem::path(env) : std::filesystem::path(ORRERY_SOURCE_DIR) / ".." / "shared";
  auto path = base / "data" / "model" / file;
  return std::filesystem::exists(path) ? path.string() : std::string();
}

}  // namespace orrery

#define REQUIRE_DATA(variable, file)                 \
  std::string variable = ::orrery::model_data(file); \
  if (variable.empty()) GTEST_SKIP() << "needs shared data: " << file
