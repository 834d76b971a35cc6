// Tests that ask the program: a folder of their own, where it also keeps its last report.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "output_of.h"

namespace orrery::graph {

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(ORRERY_PROGRAM)) GTEST_SKIP() << "the program is not built";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // What a command prints, its errors with it.
  std::string printed(const std::string& command) const {
    return output_of("XDG_CACHE_HOME=" + folder_.string() + " timeout 60 " + command + " 2>&1");
  }

  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("orrery-model-" + std::to_string(getpid()));
};

}  // namespace orrery::graph
