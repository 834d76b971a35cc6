// bench/steps.cc: predictions of serving steps a second through the C interface (include/orrery/model.h), as a scheduler or a
// simulator of clusters would ask for them: Llama-3.1-70B on four H200, batches of 1 to 64 sequences, growing contexts.
// Exit status 1 below 100,000 a second of CPU time.
#include <orrery/model.h>

#include <cstdio>
#include <ctime>

int main() {
  constexpr int kSteps = 1000000;
  orrery_model_plan plan{};
  plan.tp = 4;
  orrery_model* model = nullptr;
  if (orrery_model_open("Llama-3.1-70B", "h200:4", &plan, &model) != 0) {
    std::fprintf(stderr, "%s\n", orrery_model_error());
    return 2;
  }
  orrery_model_step step{};
  orrery_model_cost cost{};
  double sum = 0;
  const std::clock_t start = std::clock();
  for (int i = 0; i < kSteps; i++) {
    step.decode_sequences = 1 + i % 64, step.decode_context = i % 100000;
    if (orrery_model_predict(model, &step, &cost) != 0) {
      std::fprintf(stderr, "%s\n", orrery_model_error());
      return 2;
    }
    sum += cost.seconds;
  }
  const double rate = kSteps / (double(std::clock() - start) / CLOCKS_PER_SEC);
  orrery_model_close(model);
  std::printf("%.0f step predictions a second of CPU time (at least 100000): %s; %.1f s of steps\n", rate, rate >= 1e5 ? "met" : "MISSED", sum);
  return rate >= 1e5 ? 0 : 1;
}
