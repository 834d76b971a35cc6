// exec/call_stack.cc: see call_stack.h. Functions that reach each other are found by Tarjan's algorithm (Depth-first search and
// linear graph algorithms, SIAM Journal on Computing 1972), which also ends every group after all groups that it calls.
#include "exec/call_stack.h"

#include <algorithm>
#include <vector>

namespace orrery::exec {

namespace {

class CallGraph {
 public:
  explicit CallGraph(std::span<const lower::Program* const> functions) : functions_(functions), nodes_(functions.size()) {}

  uint64_t deepest_from(const lower::Program& p) {
    uint64_t deepest = 0;
    for_callees(p, [&](uint32_t f) {
      if (nodes_[f].found == 0) visit(f);
      deepest = std::max(deepest, nodes_[f].bytes);
    });
    return deepest;
  }

 private:
  struct Node {
    uint32_t found = 0;   // when the search came here first, from 1; 0: not yet
    uint32_t lowest = 0;  // the earliest function of the open ones that is reached from here
    bool open = false;    // its group is not complete
    uint64_t bytes = 0;   // once closed: of the group and the deepest chain out of it
  };

  template <class Body>
  void for_callees(const lower::Program& p, Body body) const {
    for (const auto& i : p.code) {
      if (i.form.op != isa::Op::call || i.ops.size() < 2 || i.ops[1].kind != ptx::OperandKind::func) continue;
      if (const uint64_t f = i.ops[1].id; f < functions_.size() && functions_[f]) body(uint32_t(f));
    }
  }

  void visit(uint32_t f) {
    Node& node = nodes_[f];
    node.found = node.lowest = ++count_;
    node.open = true;
    stack_.push_back(f);
    for_callees(*functions_[f], [&](uint32_t callee) {
      if (nodes_[callee].found == 0) visit(callee);
      if (nodes_[callee].open) node.lowest = std::min(node.lowest, nodes_[callee].lowest);
    });
    if (node.lowest == node.found) close_group(f);
  }

  /// `first` is the function of its group that was found first: the group lies on the stack from there on.
  void close_group(uint32_t first) {
    const auto begin = std::ranges::find(stack_, first);
    uint64_t frames = 0, beyond = 0;
    for (auto f = begin; f != stack_.end(); ++f) {
      frames += functions_[*f]->local_bytes;
      for_callees(*functions_[*f], [&](uint32_t callee) {
        if (!nodes_[callee].open) beyond = std::max(beyond, nodes_[callee].bytes);
      });
    }
    for (auto f = begin; f != stack_.end(); ++f) {
      nodes_[*f].open = false;
      nodes_[*f].bytes = frames + beyond;
    }
    stack_.erase(begin, stack_.end());
  }

  std::span<const lower::Program* const> functions_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> stack_;
  uint32_t count_ = 0;
};

}  // namespace

uint64_t deepest_calls(const lower::Program& entry, std::span<const lower::Program* const> functions) {
  return CallGraph(functions).deepest_from(entry);
}

}  // namespace orrery::exec
