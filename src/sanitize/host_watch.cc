// sanitize/host_watch.cc: see host_watch.h.
#include "sanitize/host_watch.h"

#include <sys/mman.h>

#include <atomic>

#include "exec/fault.h"

namespace orrery::sanitize {

namespace {
constexpr uint64_t kPage = 4096;
std::atomic<HostWatch*> watch{nullptr};  // the process has one
}  // namespace

HostWatch::HostWatch(Listener listener) : listener_(std::move(listener)) {
  exec::install_fault_handler();
  watch = this;
  exec::set_host_fault_hook(on_fault);
}

HostWatch::~HostWatch() {
  exec::set_host_fault_hook(nullptr);
  watch = nullptr;
  open_all();
}

void HostWatch::close(uint64_t begin, uint64_t end, bool reads_too, std::shared_ptr<const Finding> finding) {
  std::lock_guard lock(mutex_);
  if (mprotect(reinterpret_cast<void*>(begin), end - begin, reads_too ? PROT_NONE : PROT_READ) == 0) closed_[begin] = {end, reads_too, std::move(finding)};
}

void HostWatch::open_all() {
  std::lock_guard lock(mutex_);
  for (const auto& [begin, range] : closed_) mprotect(reinterpret_cast<void*>(begin), range.end - begin, PROT_READ | PROT_WRITE);
  closed_.clear();
}

/// True when the page was closed; it is open then.
bool HostWatch::on_fault(uint64_t address, bool writes, const void* code) {
  HostWatch* const self = watch;
  if (!self) return false;
  Range range;
  {
    std::lock_guard lock(self->mutex_);
    auto it = self->closed_.upper_bound(address);
    if (it == self->closed_.begin()) return false;
    --it;
    const uint64_t begin = it->first, page = address / kPage * kPage;
    range = it->second;
    if (address >= range.end) return false;
    self->closed_.erase(it);
    if (page > begin) self->closed_[begin] = {page, range.reads_too, range.finding};
    if (page + kPage < range.end) self->closed_[page + kPage] = range;
    mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);
  }
  self->listener_(*range.finding, address, writes, code);
  return true;
}

}  // namespace orrery::sanitize
