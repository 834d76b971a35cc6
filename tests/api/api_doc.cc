// Writes docs/api.md to standard output: every exported function and whether it is implemented, from the same tables
// and slots that the libraries use. With --check FILE: exit 1 when the file differs.
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

extern "C" {
extern void* orrery_slots_12[];
extern void* orrery_slots_13[];
extern void* orrery_slots_driver[];
}

namespace {

struct Row {
  std::string name, reason;
  bool done = false;
};

std::vector<Row> runtime_rows(int version) {
  std::vector<Row> rows;
#define RUNTIME(name, reason) rows.push_back({#name, reason});
#define RUNTIME_12(name, function, reason) \
  if (version == 12) rows.push_back({#name, reason});
#define RUNTIME_13(name, function, reason) \
  if (version == 13) rows.push_back({#name, reason});
#include "api/runtime.def"
  void** slots = version == 12 ? orrery_slots_12 : orrery_slots_13;
  for (size_t i = 0; i < rows.size(); i++) rows[i].done = slots[i] != nullptr;
  return rows;
}

std::vector<Row> driver_rows() {
  std::vector<Row> rows = {
#define DRIVER(name, since, reason) {#name, reason},
#include "api/driver.def"
  };
  for (size_t i = 0; i < rows.size(); i++) rows[i].done = orrery_slots_driver[i] != nullptr;
  return rows;
}

bool is_variant(const std::string& name) { return name.ends_with("_ptsz") || name.ends_with("_ptds"); }

std::string section(const std::string& title, const std::vector<Row>& rows) {
  size_t done = 0, all = 0;
  std::string table;
  for (const Row& row : rows) {
    if (is_variant(row.name)) continue;
    all++;
    done += row.done;
    table += fmt::format("| `{}` | {} | {} |\n", row.name, row.done ? "yes" : "no", row.done ? "" : row.reason);
  }
  return fmt::format("\n## {}\n\n{} of {} functions are implemented.\n\n| function | implemented | why not |\n| --- | --- | --- |\n{}", title, done, all, table);
}

std::string document() {
  std::string text =
      "# The CUDA functions that Orrery provides\n\n"
      "Made from the tables of the source by `tests/api/api_doc`; do not edit.\n\n"
      "A function that is not implemented is exported too: it returns `cudaErrorNotSupported` (runtime) or\n"
      "`CUDA_ERROR_NOT_SUPPORTED` (driver) and is named once on standard error. Entry point queries do not find it.\n"
      "Variants for per-thread default streams (`_ptsz`, `_ptds`) follow their function and are not listed.\n";
  text += section("Runtime, CUDA 13 (libcudart.so.13)", runtime_rows(13));
  text += section("Runtime, CUDA 12 (libcudart.so.12)", runtime_rows(12));
  text += section("Driver (libcuda.so.1)", driver_rows());
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string text = document();
  if (argc < 3 || std::strcmp(argv[1], "--check") != 0) {
    std::cout << text;
    return 0;
  }
  std::ifstream file(argv[2], std::ios::binary);
  const std::string have{std::istreambuf_iterator<char>(file), {}};
  if (have == text) return 0;
  std::cerr << argv[2] << " differs from the tables: write it again with build/bin/api_doc > docs/api.md\n";
  return 1;
}
