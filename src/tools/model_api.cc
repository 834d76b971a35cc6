// The questions of `orrery model` behind the C interface; no exception crosses it. Steps are in graph/c_api.cc.
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "graph/c_api.h"
#include "orrery/model.h"
#include "tools/model_questions.h"

extern "C" int orrery_model_ask(int count, const char* const* words, char** document, int* verdict) {
  try {
    if (!document) orrery::base::fail("document is NULL: there is nowhere to put the answer");
    if (count < 1) orrery::base::fail("a question of {} words asks nothing; the first is fit, serve, train, render or plan", count);
    if (!words) orrery::base::fail("words is NULL");
    std::vector<std::string> question;
    for (int i = 0; i < count; ++i) {
      if (!words[i]) orrery::base::fail("word {} is NULL", i);
      question.emplace_back(words[i]);
    }
    auto [answer, status] = orrery::tools::answer(question);
    std::string text = orrery::report::to_json(answer);
    char* copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (!copy) orrery::base::fail("no memory for a document of {} bytes", text.size());
    std::memcpy(copy, text.c_str(), text.size() + 1);
    *document = copy;
    if (verdict) *verdict = status;
    orrery::graph::model_error().clear();
    return 0;
  } catch (const std::exception& error) {
    orrery::graph::model_error() = error.what();
    return 1;
  }
}

extern "C" void orrery_model_free(char* document) { std::free(document); }
