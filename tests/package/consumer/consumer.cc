// A program outside the repository: runs a kernel on the simulated GPU and asks for the step time of a model.
#include <orrery/gpu.h>
#include <orrery/model.h>

#include <cstdio>

constexpr const char* kFill = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 out)
{
  .reg .b32 %r<2>; .reg .b64 %d<3>;
  mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1;
  ret;
}
)";

int main() {
  orrery::Gpu gpu({.profile = "h100"});
  auto* out = static_cast<unsigned*>(gpu.allocate(32 * sizeof(unsigned)));
  const orrery::LaunchReport report = gpu.load(kFill).kernel().launch({.block = {32}}, {out});
  if (report.fault || out[31] != 31) return std::puts("fill: wrong result"), 1;

  orrery_model* model = nullptr;
  orrery_model_plan plan{};
  orrery_model_step step{};
  orrery_model_cost cost{};
  step.decode_sequences = 1, step.decode_context = 1024;
  if (orrery_model_open("Llama-3.1-8B", "h200", &plan, &model) || orrery_model_predict(model, &step, &cost))
    return std::printf("model: %s\n", orrery_model_error()), 1;
  std::printf("fill is right; a decode step takes %.2f ms\n", cost.seconds * 1e3);
  orrery_model_close(model);
  return cost.seconds > 0 ? 0 : 1;
}
