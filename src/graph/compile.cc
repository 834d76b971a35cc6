// Compilation of a graph and a plan to linear forms: what each operator of one rank does per unit of each
// free axis, the collectives that follow from division, and the activations that live together.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "graph/layout.h"
#include "graph/walk.h"

namespace orrery::graph {

namespace {

class Compiler {
 public:
  Compiler(const Graph& graph, const Plan& plan) : g_(graph), p_(plan), at_(graph, plan) {}

  Program run() {
    Program program;
    program.graph = &g_;
    program.plan = p_;
    for (std::uint32_t b = 0; b < g_.blocks.size(); ++b) block(b, program);
    if (p_.pp > 1) keep_fullest_stage(program);
    if (p_.joins_reduce_norm) join_norms(program);
    return program;
  }

 private:
  // Embedding and head are on the first and the last stage; a head that is the embedding is held by both.
  void keep_fullest_stage(Program& program) const {
    std::set<TensorId> ends[2];  // weights outside the layers: of the first stage, of the last
    bool layers_seen = false;
    for (const Block& b : g_.blocks) {
      layers_seen |= b.layer;
      if (b.layer) continue;
      std::set<TensorId>& end = ends[layers_seen];
      for (std::uint32_t t = b.first_tensor; t < b.first_tensor + b.tensor_count; ++t)
        end.insert(static_cast<TensorId>(t));
      for (std::uint32_t i = b.first_op; i < b.first_op + b.op_count; ++i)
        end.insert(g_.ops[i].in.begin(), g_.ops[i].in.end());
    }
    auto sum = [&](const std::set<TensorId>& end) {
      double bytes = 0;
      for (const auto& [tensor, n] : program.weights)
        if (end.contains(tensor)) bytes += n;
      return bytes;
    };
    int fuller = sum(ends[1]) > sum(ends[0]);
    std::erase_if(program.weights, [&](const auto& w) {
      return ends[1 - fuller].contains(w.first) && !ends[fuller].contains(w.first);
    });
    program.weight_bytes = program.embedding_bytes = 0;
    for (const auto& [tensor, n] : program.weights) {
      program.weight_bytes += n;
      if (!g_.tensors[tensor].linear) program.embedding_bytes += n;
    }
  }

  // Marks the norms whose input an all-reduce has just summed; a layer's first norm follows the last layer's
  // end.
  static void join_norms(Program& program) {
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      ProgramOp& norm = program.ops[i];
      if (norm.kind != OpKind::kReduce || norm.lanes > 0) continue;
      auto before = [&](std::size_t k) {
        if (k > 0 && program.ops[k - 1].block == norm.block) return k - 1;
        std::size_t last = k;
        while (last + 1 < program.ops.size() && program.ops[last + 1].block == norm.block) ++last;
        return last;
      };
      std::size_t k = before(i);
      while (k != i && program.ops[k].fused) k = before(k);
      norm.in_reduction = program.ops[k].collective == Collective::kAllReduce;
    }
  }

  double elements(const Tensor& t, AxisId& free) const { return at_.elements(t, free); }

  void block(std::uint32_t index, Program& program) {
    const Block& b = g_.blocks[index];
    double count = at_.repeat(b);
    for (std::uint32_t t = b.first_tensor; t < b.first_tensor + b.tensor_count; ++t) {
      const Tensor& tensor = g_.tensors[t];
      AxisId free;
      double n = elements(tensor, free) * tensor.dtype.bytes() * tensor.stored * count;
      if (tensor.cls == TensorClass::kWeight) {
        program.weight_bytes += n;
        program.weights.push_back({static_cast<TensorId>(t), n});
        if (!tensor.linear) program.embedding_bytes += n;
      } else if (tensor.cls == TensorClass::kState) {
        if (tensor.stored == 0) continue;  // a part of another state
        Linear form;
        form.add(n * share(tensor), free);
        program.state_bytes.add(n * share(tensor), free);
        program.states.push_back({static_cast<TensorId>(t), form});
      }
    }
    for (std::uint32_t i = b.first_op; i < b.first_op + b.op_count; ++i) op(i, index, program);
    lives(b, program);
  }

  // Layers that share their keys and values keep them once; other state is each layer's own.
  double share(const Tensor& state) const { return is_cache(state) ? p_.kv_share : 1; }

  // Activations of a block that live at the same time, as a form for each operator.
  void lives(const Block& b, Program& program) const {
    std::map<TensorId, std::pair<std::uint32_t, std::uint32_t>> life;
    for (std::uint32_t i = b.first_op; i < b.first_op + b.op_count; ++i) {
      auto touch = [&](TensorId t) {
        if (g_.tensors[t].cls != TensorClass::kActivation) return;
        auto [it, fresh] = life.try_emplace(t, i, i);
        it->second.second = i;
      };
      for (TensorId t : g_.ops[i].in) touch(t);
      for (TensorId t : g_.ops[i].out) touch(t);
      for (TensorId t : g_.ops[i].held) touch(t);
    }
    for (std::uint32_t i = b.first_op; i < b.first_op + b.op_count; ++i) {
      Linear sum;
      for (const auto& [t, range] : life) {
        if (i < range.first || i > range.second) continue;
        AxisId free;
        double n = elements(g_.tensors[t], free) * g_.tensors[t].dtype.bytes();
        sum.add(n, free);
      }
      for (ProgramOp& op : program.ops)
        if (op.op == i) op.live = sum;
    }
  }

  void op(std::uint32_t index, std::uint32_t block_index, Program& program) {
    const Op& op = g_.ops[index];
    const Block& b = g_.blocks[block_index];
    ProgramOp out;
    out.op = index;
    out.block = block_index;
    out.kind = op.kind;
    out.part = op.part;
    out.repeat = at_.repeat(b) * b.share;
    out.stages = at_.stages(b);
    out.phase = b.phase;
    out.seconds = op.seconds, out.joules = op.joules;
    out.fused = op.fused || inside_experts(op);
    out.reach = op.reach;
    traffic(op, out);
    if (op.kind == OpKind::kContract) quantise(op, out, program);
    if (op.kind == OpKind::kContract)
      contract(op, out);
    else if (op.kind == OpKind::kAttend)
      attend(op, out);
    else
      elementwise(op, out);
    if (op.kind == OpKind::kAttend) sequence_exchange(op, out, program, false);
    program.ops.push_back(out);
    if (op.kind == OpKind::kAttend) sequence_exchange(op, out, program, true);
    collective(op, out, program);
  }

  // Ranks that divide the sequence need the keys and values of all of it: they gather them (a ring passes the
  // same bytes), or trade the sequence for heads before attention and back after it (Ulysses). Keys of
  // another sequence, such as a text's, are on every rank.
  void sequence_exchange(const Op& op, const ProgramOp& of, Program& program, bool after) const {
    if (p_.cp <= 1 || (after && !p_.ulysses)) return;
    ProgramOp c = collect(of, p_.ulysses ? Collective::kAllToAll : Collective::kAllGather, p_.cp);
    c.span = context_group(p_).span;
    AxisId rows = g_.tensors[op.in.front()].axes.front();
    if (g_.tensors[op.in.back()].axes.front() != rows) return;
    std::vector<TensorId> sent = after ? op.out : op.in;
    if (!p_.ulysses) sent.erase(sent.begin());
    for (TensorId t : sent) {
      AxisId free;
      double n = elements(g_.tensors[t], free) * g_.tensors[t].dtype.bytes();
      c.link.add(p_.ulysses ? n : n * p_.cp, free);
    }
    program.ops.push_back(c);
  }
  static ProgramOp collect(const ProgramOp& of, Collective kind, int group) {
    ProgramOp c;
    c.op = of.op, c.block = of.block, c.part = of.part, c.phase = of.phase;
    c.repeat = of.repeat, c.stages = of.stages;
    c.kind = OpKind::kCollect;
    c.collective = kind, c.group = c.span = group;
    return c;
  }

  void traffic(const Op& op, ProgramOp& out) {
    bool gather = op.kind == OpKind::kGather;
    for (TensorId id : op.in) {
      const Tensor& t = g_.tensors[id];
      AxisId free;
      double n = elements(t, free) * t.dtype.bytes();
      if (t.cls == TensorClass::kWeight) {
        if (!gather)
          out.weight_bytes += n;  // a gather reads only the rows it returns, counted with its output
        out.format = t.dtype.format, out.blocks = t.dtype.blocks;
      } else if (t.cls == TensorClass::kState) {
        out.state_read.add(n * share(t), free), out.cache |= is_cache(t);
      } else if (!op.fused) {
        out.act.add(n, free);
      }
    }
    for (TensorId id : op.out) {
      const Tensor& t = g_.tensors[id];
      AxisId free;
      double n = elements(t, free) * t.dtype.bytes();
      if (t.cls == TensorClass::kState)
        out.state_write.add(n * share(t), free), out.cache |= is_cache(t);
      else if (!op.fused)
        out.act.add(gather ? 2 * n : n, free);
    }
  }

  // A product in 8 or 4 bits takes its activations in that width too: they are scaled and narrowed row by row
  // in a kernel before it. Rows that go to experts are narrowed as they are dispatched.
  void quantise(const Op& op, const ProgramOp& product, Program& program) const {
    Format f = product.format;
    if (f != Format::kFp8 && f != Format::kInt8 && f != Format::kNvfp4) return;
    if (p_.joins_narrowing && !product.blocks && made_by_a_map(op.in.front()) &&
        (op.part != Part::kExpert || f == Format::kNvfp4))
      return;
    ProgramOp q;
    q.op = product.op, q.block = product.block, q.part = product.part, q.phase = product.phase;
    q.repeat = product.repeat, q.stages = product.stages;
    q.kind = OpKind::kMap;
    q.narrows = f;
    const Tensor& x = g_.tensors[op.in.front()];
    AxisId free;
    double n = elements(x, free);
    bool dispatched = op.grouped != kNoAxis && !is_inner(x);
    q.act.add(n * (x.dtype.bytes() + (f == Format::kNvfp4 ? 0.5625 : 1)),
              dispatched ? static_cast<AxisId>(kTokens) : free);
    program.ops.push_back(q);
  }
  // NVFP4's expert kernels gather their rows and apply the activation themselves (FlashInfer's fused mixture
  // of experts).
  bool inside_experts(const Op& op) const {
    if (!p_.joins_narrowing || op.part != Part::kExpert ||
        (op.kind != OpKind::kMap && op.kind != OpKind::kMove) || op.adds)
      return false;
    for (const Op& product : g_.ops) {
      if (product.grouped == kNoAxis || product.kind != OpKind::kContract) continue;
      if (g_.tensors[product.in[1]].dtype.format != Format::kNvfp4) continue;
      if (std::find(op.out.begin(), op.out.end(), product.in.front()) != op.out.end()) return true;
    }
    return false;
  }
  // Whether the tensor is the output of a norm or activation that writes it.
  bool made_by_a_map(TensorId t) const {
    for (const Op& op : g_.ops)
      if ((op.kind == OpKind::kMap || op.kind == OpKind::kReduce || op.kind == OpKind::kMove) &&
          std::find(op.out.begin(), op.out.end(), t) != op.out.end())
        return true;
    return false;
  }
  // Whether the tensor lies between the two products of a feed-forward part.
  bool is_inner(const Tensor& t) const {
    for (AxisId axis : t.axes)
      if (axis >= kFreeAxes && g_.axes[axis].name != "hidden") return true;
    return false;
  }

  void contract(const Op& op, ProgramOp& out) {
    const Tensor& y = g_.tensors[op.out.front()];
    out.rows = y.axes.front();
    double per_row = 0, inner = 1;
    for (TensorId id : op.in) {
      const Tensor& w = g_.tensors[id];
      if (w.cls != TensorClass::kWeight) continue;
      double n = w.copies;
      for (AxisId axis : w.axes)
        if (axis != op.grouped) n *= w.replicated ? g_.axes[axis].extent : at_.local(axis);
      per_row += n;
    }
    double points = 1;
    for (AxisId axis : g_.tensors[op.in.front()].axes)
      if (axis >= kFreeAxes && !g_.axes[axis].points) inner *= at_.local(axis);
    for (AxisId axis : y.axes)
      if (axis >= kFreeAxes && g_.axes[axis].points) points *= at_.local(axis);
    out.rows_each = points;
    out.ops.add(2 * per_row * points, out.rows);
    out.ops_absorbed = out.ops;
    out.k_width = inner;
    out.n_width = per_row / inner;
    if (op.grouped != kNoAxis) {
      out.grouped_extent = at_.local(op.grouped);
      out.grouped_total = g_.axes[op.grouped].extent;
      out.grouped_ranks = at_.split(op.grouped);
      out.load = p_.expert_load;
      out.engine_experts = p_.engine_experts;
    }
  }

  void attend(const Op& op, ProgramOp& out) {
    double heads = at_.local(op.head_axis);
    out.head_dim = op.head_v > 0 ? (op.head_qk + op.head_v) / 2 : op.head_qk;
    // Scores alone are a product in the format of the keys that they are kept for.
    for (TensorId t : op.in)
      if (op.head_v == 0 && g_.tensors[t].cls == TensorClass::kState) out.format = g_.tensors[t].dtype.format;
    if (op.score_bytes > 0) out.act.add(heads * op.score_bytes, kScores);
    out.ops.add(2 * heads * (op.head_qk + op.head_v), op.pairs);
    out.ops_absorbed.add(
        2 * heads *
            ((op.absorbed_qk ? op.absorbed_qk : op.head_qk) + (op.absorbed_v ? op.absorbed_v : op.head_v)),
        op.pairs);
  }

  void elementwise(const Op& op, ProgramOp& out) {
    out.lanes = op.lanes;
    if (op.ops_per_element == 0) return;
    AxisId free;
    double n = elements(g_.tensors[op.out.front()], free);
    out.ops.add(n * op.ops_per_element, free);
    out.ops_absorbed = out.ops;
  }

  // Ranks over which the output of a product or gather is a partial sum: those that divide an axis which the
  // output does not have.
  int divided(const Op& op) const {
    int group = 1;
    const Tensor& x = g_.tensors[op.in.front()];
    const Tensor& y = g_.tensors[op.out.front()];
    for (AxisId axis : x.axes)
      if (axis >= kFreeAxes && at_.split(axis) > 1 &&
          std::find(y.axes.begin(), y.axes.end(), axis) == y.axes.end())
        group = std::max(group, at_.split(axis));
    if (op.kind == OpKind::kGather)
      for (TensorId t : op.in)
        for (AxisId axis : g_.tensors[t].axes)
          if (axis >= kFreeAxes) group = std::max(group, at_.split(axis));
    // Where the ranks of a tensor-parallel group divide the experts, the combine sums their parts, too.
    return op.grouped != kNoAxis && p_.ep > 1 && !exchanges_rows() ? 1 : group;
  }

  // Experts that are divided over ranks with tokens of their own: rows travel to them and back.
  bool exchanges_rows() const { return p_.ep > 1 && p_.dp * p_.cp > 1; }

  // Whether an operator that adds takes this one's output: the sum over ranks can wait until after it.
  bool added_later(const Op& op) const {
    for (const Op& other : g_.ops)
      if (other.adds && &other != &op &&
          std::find(other.in.begin(), other.in.end(), op.out.front()) != other.in.end())
        return true;
    return false;
  }

  // A product over a divided axis leaves partial sums on each rank; they are summed once, after the additions
  // that follow it.
  void collective(const Op& op, const ProgramOp& of, Program& program) {
    int group = 1;
    Collective kind = Collective::kNone;
    if (op.kind == OpKind::kContract || op.kind == OpKind::kGather) {
      group = divided(op);
    } else if (op.kind == OpKind::kMove && p_.ep > 1) {
      if (exchanges_rows())
        kind = Collective::kAllToAll, group = p_.ep;
      else if (op.adds)
        group = p_.tp;
    }
    if (op.adds)
      for (TensorId t : op.in)
        if (auto it = partial_.find(t); it != partial_.end()) group = std::max(group, it->second);
    if (kind == Collective::kNone && group > 1) {
      // Rows of experts go back to their own ranks summed.
      if (added_later(op) && !(op.grouped != kNoAxis && exchanges_rows())) {
        partial_[op.out.front()] = group;
        return;
      }
      kind = Collective::kAllReduce;
    }
    // Logits divided over the vocabulary are gathered before sampling.
    if (kind == Collective::kNone && op.part == Part::kHead && op.kind == OpKind::kContract) {
      for (AxisId axis : g_.tensors[op.out.front()].axes)
        if (axis >= kFreeAxes && at_.split(axis) > 1) kind = Collective::kAllGather, group = at_.split(axis);
    }
    if (kind == Collective::kNone || group <= 1) return;
    ProgramOp c = collect(of, kind, group);
    if (kind == Collective::kAllToAll) c.span = expert_group(p_).span, c.load = p_.expert_load;
    // The routed rows travel once, whether they are counted at the sender or at the receiver.
    TensorId payload = op.adds && kind == Collective::kAllToAll ? op.in.front() : op.out.front();
    AxisId free;
    double n = elements(g_.tensors[payload], free) * g_.tensors[payload].dtype.bytes();
    c.link.add(n, free);
    program.ops.push_back(c);
  }

  const Graph& g_;
  const Plan& p_;
  Layout at_;
  std::map<TensorId, int> partial_;  // outputs that still are partial sums, and over how many ranks
};

}  // namespace

Program compile(const Graph& graph, const Plan& plan) {
  check_plan(graph, plan);
  return Compiler(graph, plan).run();
}

}  // namespace orrery::graph
