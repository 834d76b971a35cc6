// jit/memory_access.h: the code of one ld or st (emit_memory.cc).
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "jit/emitter.h"

namespace orrery::jit {

inline bool is_param_space(isa::Space s) { return s == isa::Space::param || s == isa::Space::param_entry; }

class MemoryAccess {
 public:
  /// An access of `vector` elements of `element_bytes` each per lane.
  MemoryAccess(Emitter& e, const ptx::Instr& in, const ptx::Operand& address, int element_bytes, int vector);
  void load();
  static bool can_look(Emitter& e, const ptx::Instr& in, int64_t step);
  void store();
  llvm::Value* cover_together();
  /// A load or store in the local space. emit_local.cc
  void local();
  void atomic();
  /// Offers the access to exec/'s short way (exec/observed.h): i1, it must be reported. emit_observed.cc
  llvm::Value* offer();
  llvm::Value* offer_atomic();
  /// Offers this load from shared memory together with others of the node; fills Emitter::offered_ where there are some.
  void offer_together();
  /// i1: some lane is outside its instruction's range.
  llvm::Value* leaves_range();

 private:
  using Value = llvm::Value;
  struct Row { Value *base, *mask; };  // lane i's element is at base + i elements; null: of all lanes
  enum class Shape { same, consecutive, pattern, any };

  int size() const { return bytes_ * vector_; }
  bool is_store() const { return in_.form.op == isa::Op::st; }
  bool is_volatile() const {
    return in_.form.has(isa::Mod::volatile_) || in_.form.has(isa::Mod::relaxed) || in_.form.has(isa::Mod::acquire) ||
           in_.form.has(isa::Mod::release) || in_.form.has(isa::Mod::mmio);
  }
  bool covered(Value* bases, int64_t low, int64_t extent);
  std::pair<Emitter::Cover, int> cover_of_node(int64_t first, int64_t last);
  std::pair<int64_t, int64_t> span_of_lanes() const;
  void sharpen();
  bool consecutive(int chunks) const;
  Shape shape() const;
  Value* repeated_mask(Value* mask);
  Value* address(int width);
  Value* outside(Value* address, int64_t low, int64_t extent);
  bool is_flat() const { return lanes_.chunks == 1 && lanes_.pattern == 0; }
  bool is_row() const { return lanes_.chunks == 1 && !lanes_.varies() && lanes_.pattern && !repeat_ && consecutive(1); }
  Value* local_offsets();  // emit_local.cc
  Value* outside_local(Value* offsets);
  Value* local_places(Value* offsets);
  struct Word { Value *places, *shift, *value; };
  Word word_at(Value* at, int k, Value* m);
  std::vector<Value*> load_local(Value* at, Value* m);
  void store_local(const std::vector<Value*>& values, Value* at, Value* m);
  Value* unmarked(Value* at, Value* m);
  void mark(Value* at, Value* m);
  Value* window() const { return local_ ? e_.local_ : e_.shared_; }
  Value* outside_known(Value* address, int64_t extent);  // emit_observed.cc
  Value* any_bad_chunk(Value* bad, Value* mask);
  Value* pointer(Value* address);
  Value* element_pointers(Value* addresses, int k);
  Value* base_of(Value* bases, int chunk);
  void note();
  void either(Value* bad, const std::function<std::vector<Value*>()>& fast);
  const ptx::Operand& data(int i) const;
  void define(int i, Value* v);
  llvm::Type* memory_type() const;
  std::vector<Value*> unzip(Value* v, int lanes);
  Value* zip(const std::vector<Value*>& v);
  Value* concat(Value* a, Value* b);
  Value* join(std::vector<Value*> list);
  Value* slice(Value* v, int first, int n);
  Value* mask_of(Value* m, int first, int n);
  void look();
  void load_same();
  Value* load_scalar(Value* at, int k);
  Value* load_chunks(Value* bases, int k);
  Value* used_addresses(Value* bases, Value* mask);
  void load_consecutive();
  void load_pattern();
  void load_any();
  void gather();
  // emit_rows.cc
  bool may_be_row() const;
  void load_rows(const std::vector<Row>& rows);
  void store_rows(const std::vector<Row>& rows, const std::vector<Value*>& values);
  void rows_or(const std::function<void(const std::vector<Row>&)>& rows, const std::function<void()>& scattered);
  Value* not_following(Value* addresses, int lane);
  Value* outside_rows(const std::vector<Row>& rows);
  void either_way(Value* condition, const std::function<void()>& one, const std::function<void()>& other);
  // emit_spread.cc
  bool is_spread() const;
  void if_all(const std::function<void()>& together, const std::function<void()>& apart);
  std::pair<int64_t, int64_t> spread_of(int chunk) const;
  void load_spread();
  Value* pick(int chunk, Value* base);
  void store_spread(Value* value);
  void put(int chunk, Value* base, Value* values);
  void fetch_ahead(Value* bases, int64_t extent);  // emit_ahead.cc
  // emit_runs.cc
  bool load_run();
  std::vector<std::pair<uint32_t, int64_t>> neighbours() const;
  std::pair<int64_t, int> best_window(const std::vector<std::pair<uint32_t, int64_t>>& loads) const;
  std::vector<Value*> load_pairs(Value* addresses, Value* mask);
  std::vector<Value*> load_quads(Value* addresses, Value* mask);
  std::vector<Value*> load_small(Value* at, Value* m);
  std::vector<Value*> sources();
  Value* one_lane(Value* p, Value* v, Value* w);
  void reduce_then_add(Value* v, Value* mask);
  Value* may_stream(Value* bases, Value* mask);
  void store_same(const std::vector<Value*>& values);
  void scatter(const std::vector<Value*>& values);
  void store_small(Value* at, const std::vector<Value*>& values, Value* m);

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const ptx::Instr& in_;
  const ptx::Operand& address_;
  const int bytes_, vector_;
  bool shared_ = false, local_ = false, all_ = false;
  bool windowed() const { return shared_ || local_; }  // addresses are 32-bit places in a window
  lower::Lanes lanes_;               // of the address
  lower::Pattern pattern_{};         // of lanes_.chunks, after sharpen()
  int64_t lead_ = 0;                 // bytes from where a check has covered this access and others
  int repeat_ = 0;                   // lanes l and l + repeat_ have one address; 0: not so
};

}  // namespace orrery::jit
