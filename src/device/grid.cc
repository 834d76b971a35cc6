// device/grid.cc: see grid.h.
#include "device/grid.h"

#include <algorithm>

#include "device/device.h"

namespace orrery::device {
namespace {

const std::map<std::string, DeviceFunction, std::less<>>* device_functions = nullptr;

constexpr uint64_t kChunk = 64 << 10;        // of memory for parameters
constexpr uint64_t kParameterAlign = 64;

}  // namespace

void provide_device_functions(const std::map<std::string, DeviceFunction, std::less<>>* functions) { device_functions = functions; }

Grid::~Grid() {
  for (uint64_t chunk : chunks_) system().memory().release(chunk);
}

std::optional<uint64_t> Grid::call(std::string_view name, exec::DeviceCall& call) {
  if (!device_functions) return {};
  const auto at = device_functions->find(name);
  if (at == device_functions->end()) return {};
  return at->second(*this, call);
}

void Grid::ask(Work work, bool tail) {
  // A grid that has asked for nothing yet and stands at the limit is at the end of a chain without end.
  if (requests_.empty() && tail_.empty() && pending_ >= context_.limits.pending_launches) throw Failure(Status::launch_pending_exceeded);
  (tail ? tail_ : requests_).push_back(std::move(work));
}

uint64_t Grid::parameter_buffer(uint64_t bytes, const Prepared& launch) {
  bytes = std::max(kParameterAlign, (bytes + kParameterAlign - 1) / kParameterAlign * kParameterAlign);
  if (end_ - next_ < bytes) {
    next_ = system().allocate(context_.device(), std::max(kChunk, bytes), exec::MemoryKind::module);
    end_ = next_ + std::max(kChunk, bytes);
    chunks_.push_back(next_);
  }
  const uint64_t buffer = next_;
  next_ += bytes;
  prepared_[buffer] = launch;
  return buffer;
}

const Grid::Prepared* Grid::prepared(uint64_t buffer) const {
  const auto at = prepared_.find(buffer);
  return at == prepared_.end() ? nullptr : &at->second;
}

uint64_t Grid::create_handle() {
  static std::atomic<uint64_t> next{0x1000};  // no two grids have the same; none is one of the named streams
  const uint64_t handle = next.fetch_add(16);
  handles_.insert(handle);
  return handle;
}

int Grid::error(uint64_t thread, bool clear) {
  const auto at = errors_.find(thread);
  if (at == errors_.end()) return 0;
  const int code = at->second;
  if (clear) errors_.erase(at);
  return code;
}

}  // namespace orrery::device
