// The questions of `orrery model` that are answered by a document: fit, serve, train, render, plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/model_documents.h"
#include "tools/model_options.h"

namespace orrery::tools {

struct Reply {
  Json document;
  int status = 0;  // 1: it does not fit, or no plan does
};

// How a question is asked, and what answers it once its options are read.
struct ModelQuestion {
  const char *name, *description;
  void (*options)(CLI::App&, Asked&);
  Reply (*answer)(CLI::App&, Asked&);
};
std::span<const ModelQuestion> model_questions();

// The answer to a question whose options `app` has read, with its plan file.
Reply answer(const ModelQuestion& question, CLI::App& app, Asked& asked);
// The same from the words behind `orrery model`; throws base::Error for words that it does not know, too.
Reply answer(const std::vector<std::string>& words);

}  // namespace orrery::tools
