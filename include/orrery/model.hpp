// The model scale for C++ programs: whole questions as JSON, and steps of a model under a plan. It is a wrapper of
// the C interface (model.h), so that a program needs no more of Orrery than that header and liborrery_model; errors
// are exceptions. What a step's amounts count stands there.
#ifndef ORRERY_MODEL_HPP
#define ORRERY_MODEL_HPP

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "orrery/model.h"

namespace orrery::model {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void check(int status) {
  if (status != 0) throw Error(orrery_model_error());
}

struct Answer {
  std::string document;  // JSON
  bool yes = false;      // it fits, the rate is reached, a plan was found
};
// A question in the words that follow `orrery model`.
inline Answer ask(const std::vector<std::string>& words) {
  std::vector<const char*> list;
  for (const std::string& word : words) list.push_back(word.c_str());
  char* document = nullptr;
  int verdict = 0;
  check(orrery_model_ask(static_cast<int>(list.size()), list.data(), &document, &verdict));
  Answer answer{document, verdict == 0};
  orrery_model_free(document);
  return answer;
}

// How a model is laid out; what is not said is 1, or as the checkpoint has it.
struct Plan {
  int tp = 1, pp = 1, dp = 1, ep = 1;
  std::string weights, kv;
  std::vector<std::string> verbs;
};

// A language model under a plan. One thread at a time.
class Model {
 public:
  Model(const std::string& model, const std::string& gpu, const Plan& plan = {}) {
    std::vector<const char*> verbs;
    for (const std::string& verb : plan.verbs) verbs.push_back(verb.c_str());
    verbs.push_back(nullptr);
    orrery_model_plan p{plan.tp, plan.pp, plan.dp, plan.ep, plan.weights.empty() ? nullptr : plan.weights.c_str(),
                        plan.kv.empty() ? nullptr : plan.kv.c_str(), verbs.data()};
    check(orrery_model_open(model.c_str(), gpu.c_str(), &p, &handle_));
  }
  Model(Model&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Model& operator=(Model&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Model() { orrery_model_close(handle_); }

  orrery_model_cost step(const orrery_model_step& step) {
    orrery_model_cost cost{};
    check(orrery_model_predict(handle_, &step, &cost));
    return cost;
  }
  struct Memory {
    double bytes = 0, capacity = 0;
  };
  // Of the fullest rank with so many sequences a data-parallel rank of so many tokens.
  Memory memory(double sequences, double context) {
    Memory m;
    check(orrery_model_memory(handle_, sequences, context, &m.bytes, &m.capacity));
    return m;
  }

 private:
  orrery_model* handle_ = nullptr;
};

}  // namespace orrery::model

#endif
