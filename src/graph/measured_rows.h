// Rows of CSV files with measurements, and what comparing predictions with them gives.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/validate.h"
#include "profile/profile.h"

namespace orrery::graph {

using Row = std::map<std::string, std::string>;  // by the names of the head line

// Lines that start with # are left out. Throws base::Error when the file cannot be read.
std::vector<Row> read_rows(const std::string& path);
// A cell as a number; `absent` when there is none.
double number(const Row& row, const char* key, double absent);
int whole(const Row& row, const char* key);  // 1 when absent

// The profile of a GPU as sources write its name: "H100-80GB (DGX)", "A800/A100", "RTX 4090".
const Profile& profile_named(const std::string& text);

// Compares each row; those that `predict` refuses are counted by reason. Smaller is better when `small`.
Accuracy compare_rows(const std::string& path, bool small, const std::function<Compared(const Row&)>& predict);
// The figures of an Accuracy whose `compared` is complete.
void finish(Accuracy& accuracy, bool small);
std::string accuracy_text(const char* title, const Accuracy& accuracy, bool groups);

}  // namespace orrery::graph
