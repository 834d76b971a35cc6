// jit/emit_spread.cc: loads and stores whose lanes lie a few elements apart: members of structs, the colours of pixels.
//
// Where the pattern is known and no longer than kMostSpread times the elements in it, the bytes from the first lane's to
// the last lane's are read whole, 64 at a time, and each lane's element is picked out; a store puts the elements that fall
// into each 64 bytes in their places and writes them under a mask that is a constant. A gather of 32 words costs as much
// as 40 such loads, a scatter more; bytes and halves have neither.
//
// Invariants: no byte is read that does not lie between two that the program reads, and none is written but the
// program's: all lanes are on their way (tested at run time where that is not known), and a store's lanes have places of
// their own.
#include <algorithm>
#include <set>

#include "jit/emitter.h"
#include "jit/memory_access.h"

namespace orrery::jit {

using llvm::FixedVectorType;
using llvm::Value;

namespace {
constexpr int kPiece = 64;       // bytes
constexpr int kMostSpread = 4;   // elements of memory for one of a lane
}  // namespace

/// The pattern is one for this file.
bool MemoryAccess::is_spread() const {
  if (e_.plan_.observe || vector_ != 1 || is_volatile() || lanes_.varies() || lanes_.pattern == 0 || repeat_) return false;
  if (!all_ && lanes_.chunks != 1) return false;  // gathers want an address for each lane
  const auto [low, high] = std::minmax_element(pattern_.begin(), pattern_.end());
  for (int64_t v : pattern_)
    if ((v - *low) % bytes_ != 0) return false;
  if ((*high - *low) / bytes_ >= kMostSpread * (32 / lanes_.chunks)) return false;
  if (!is_store()) return true;
  const int span = 32 / lanes_.chunks;
  for (int c = 0; c < lanes_.chunks; c++)
    if (std::set<int64_t>(pattern_.begin() + c * span, pattern_.begin() + (c + 1) * span).size() != size_t(span)) return false;
  return e_.traits_.avx512;
}

/// Emits `together` where all lanes are on their way, `apart` elsewhere.
void MemoryAccess::if_all(const std::function<void()>& together, const std::function<void()>& apart) {
  if (all_) return together();
  either_way(b_.CreateICmpEQ(e_.bits_of(e_.exec_mask()), b_.getInt32(~0u)), together, apart);
}

void MemoryAccess::either_way(Value* condition, const std::function<void()>& one, const std::function<void()>& other) {
  llvm::BasicBlock *first = e_.block("one_way"), *second = e_.block("other_way"), *done = e_.block("both");
  b_.CreateCondBr(condition, first, second);
  b_.SetInsertPoint(first);
  one();
  b_.CreateBr(done);
  b_.SetInsertPoint(second);
  other();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

/// Bytes from a chunk's base to its first element's place, and to the end of its last's.
std::pair<int64_t, int64_t> MemoryAccess::spread_of(int chunk) const {
  const int span = 32 / lanes_.chunks;
  const auto [low, high] = std::minmax_element(pattern_.begin() + chunk * span, pattern_.begin() + (chunk + 1) * span);
  return {*low, *high + bytes_};
}

void MemoryAccess::load_spread() {
  Value* bases = address(lanes_.chunks);
  const auto [low, high] = span_of_lanes();
  either(any_bad_chunk(outside(bases, low, high - low), nullptr), [&, low = low, high = high] {
    note();
    fetch_ahead(bases, high - low);
    std::vector<Value*> chunks;
    for (int c = 0; c < lanes_.chunks; c++) chunks.push_back(pick(c, base_of(bases, c)));
    return std::vector<Value*>{join(chunks)};
  });
}

/// The elements of a chunk's lanes.
Value* MemoryAccess::pick(int chunk, Value* base) {
  const int per_piece = kPiece / bytes_, span = 32 / lanes_.chunks;
  const auto [low, high] = spread_of(chunk);
  const int elements = int((high - low) / bytes_);
  auto* t = FixedVectorType::get(memory_type(), unsigned(per_piece));
  std::vector<Value*> pieces;
  for (int first = 0; first < elements; first += per_piece) {
    Value* p = pointer(b_.CreateAdd(base, llvm::ConstantInt::get(base->getType(), uint64_t(low + first * bytes_), true)));
    const llvm::Align align{uint64_t(bytes_)};
    if (elements - first >= per_piece) {
      pieces.push_back(b_.CreateAlignedLoad(t, p, align));
      continue;
    }
    llvm::SmallVector<llvm::Constant*, 64> there;
    for (int i = 0; i < per_piece; i++) there.push_back(b_.getInt1(first + i < elements));
    pieces.push_back(b_.CreateMaskedLoad(t, p, align, llvm::ConstantVector::get(there), llvm::Constant::getNullValue(t)));
  }
  std::vector<Value*> groups;
  for (int lane = 0; lane < span; lane += per_piece) {
    const int n = std::min(per_piece, span - lane);
    auto place = [&, low = low](int i) { return int((pattern_[size_t(chunk * span + lane + i)] - low) / bytes_); };
    Value* v = nullptr;
    for (int k = 0; k < int(pieces.size()); k++) {
      llvm::SmallVector<int, 64> index;
      bool used = false;
      for (int i = 0; i < per_piece; i++) {
        const bool here = i < n && place(i) / per_piece == k;
        used |= here;
        index.push_back(here ? per_piece + place(i) % per_piece : i < n && v ? i : -1);
      }
      if (used) v = b_.CreateShuffleVector(v ? v : llvm::PoisonValue::get(t), pieces[size_t(k)], index);
    }
    groups.push_back(slice(v, 0, n));
  }
  return join(groups);
}

void MemoryAccess::store_spread(Value* value) {
  Value* bases = address(lanes_.chunks);
  const auto [low, high] = span_of_lanes();
  either(any_bad_chunk(outside(bases, low, high - low), nullptr), [&] {
    note();
    const int span = 32 / lanes_.chunks;
    for (int c = 0; c < lanes_.chunks; c++) put(c, base_of(bases, c), slice(value, c * span, span));
    return std::vector<Value*>();
  });
}

/// The elements `values` of a chunk's lanes go to their places.
void MemoryAccess::put(int chunk, Value* base, Value* values) {
  const int per_piece = kPiece / bytes_, span = 32 / lanes_.chunks;
  const auto [low, high] = spread_of(chunk);
  for (int64_t first = low; first < high; first += kPiece) {
    llvm::SmallVector<int, 64> index(size_t(per_piece), -1);
    llvm::SmallVector<llvm::Constant*, 64> written(size_t(per_piece), b_.getFalse());
    for (int i = 0; i < span; i++) {
      const int64_t at = pattern_[size_t(chunk * span + i)] - first;
      if (at >= 0 && at < kPiece) index[size_t(at / bytes_)] = i, written[size_t(at / bytes_)] = b_.getTrue();
    }
    Value* p = pointer(b_.CreateAdd(base, llvm::ConstantInt::get(base->getType(), uint64_t(first), true)));
    b_.CreateMaskedStore(b_.CreateShuffleVector(values, index), p, llvm::Align{uint64_t(bytes_)}, llvm::ConstantVector::get(written));
  }
}

}  // namespace orrery::jit
