// Kernels of norms, gates and rotations, one operator each.
#include "graph/denoiser_steps.h"

namespace orrery::graph {

namespace {
constexpr Part kPart = Part::kDense;
}

// One kernel; its result has the axes of what it takes first.
TensorId DenoiserSteps::pass(const std::string& name, std::vector<TensorId> in, DType out, OpKind kind) {
  TensorId y = b_.tensor(name, b_.at(in.front()).axes, TensorClass::kActivation, out);
  b_.op(kind, kPart, name, std::move(in), {y}).ops_per_element = kind == OpKind::kReduce ? 4 : 1;
  return y;
}

TensorId DenoiserSteps::modulated(const std::string& name, TensorId x, AxisId rows, bool written_out) {
  if (compiled_) {
    TensorId y = b_.map(kPart, name, {x}, {rows, h_}, 4);
    b_.last().kind = OpKind::kReduce;
    return y;
  }
  TensorId normed;
  if (written_out) {
    TensorId square = pass(name + ".square", {pass(name + ".widen", {x}, kFp32)}, kFp32);
    TensorId mean = b_.tensor(name + ".mean", {rows}, TensorClass::kActivation, kFp32);
    b_.op(OpKind::kReduce, kPart, name + ".mean", {square}, {mean}).ops_per_element = 1;
    normed = pass(name + ".narrow", {pass(name, {x, mean}, kFp32)}, kBf16);
  } else {
    normed = pass(name, {x}, kBf16, OpKind::kReduce);
  }
  TensorId y = pass(name + ".shift", {pass(name + ".scale", {normed}, kBf16)}, kBf16);
  hold({x});
  return y;
}

TensorId DenoiserSteps::rescaled(const std::string& name, TensorId x, AxisId rows) {
  if (compiled_) return modulated(name, x, rows);
  return pass(name + ".shift", {pass(name + ".scale", {x}, kBf16)}, kBf16);
}

TensorId DenoiserSteps::gated(const std::string& name, TensorId x, TensorId y, AxisId rows) {
  if (compiled_) return b_.map(kPart, name, {x, y}, {rows, h_}, 2);
  TensorId gate = pass(name + ".gate", {y}, kBf16);
  hold({y});
  return pass(name, {x, gate}, kBf16);
}

TensorId DenoiserSteps::head_norm(const std::string& name, TensorId t) {
  return compiled_ ? t : pass(name, {t}, kBf16, OpKind::kReduce);
}

TensorId DenoiserSteps::rotated(const std::string& name, TensorId t, const Rotary& table) {
  if (compiled_) return t;
  auto times = [&](const std::string& what, TensorId wide, TensorId by) {
    return by == kNone ? pass(what, {wide}, kFp32) : pass(what, {wide, by}, kFp32);
  };
  std::vector<AxisId> axes = b_.at(t).axes;
  double last = b_.graph().axes[axes.back()].extent;
  axes.back() = b_.axis(b_.graph().axes[axes.back()].name + ".half", last / 2);
  TensorId negative = b_.map(kPart, name + ".negate", {t}, axes, 1);
  TensorId turned = pass(name + ".stack", {t, negative}, kBf16);
  TensorId cosine = times(name + ".cosine", pass(name + ".widen", {t}, kFp32), table.cosine);
  TensorId sine = times(name + ".sine", pass(name + ".turned.widen", {turned}, kFp32), table.sine);
  TensorId y = pass(name + ".narrow", {pass(name + ".add", {cosine, sine}, kFp32)}, kBf16);
  hold({t, turned});
  return y;
}

TensorId DenoiserSteps::joined(const std::string& name, std::vector<TensorId> parts,
                               std::vector<AxisId> axes) {
  TensorId y = b_.act(name, std::move(axes));
  Op& op = b_.op(OpKind::kMove, kPart, name, std::move(parts), {y});
  op.fused = compiled_;
  return y;
}

void DenoiserSteps::hold(const std::vector<TensorId>& tensors) {
  if (compiled_) return;
  std::vector<TensorId>& held = b_.last().held;
  held.insert(held.end(), tensors.begin(), tensors.end());
}

}  // namespace orrery::graph
