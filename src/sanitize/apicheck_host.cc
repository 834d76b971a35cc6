// sanitize/apicheck_host.cc: what the host does with memory that an operation may still use. See apicheck.h.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "sanitize/apicheck.h"

namespace orrery::sanitize {

using namespace exec;

namespace {

constexpr uint64_t kPage = Footprint::kPageBytes;

bool is_shared_with_host(const Block& b) { return b.kind == MemoryKind::managed || b.kind == MemoryKind::pinned; }

/// "main (app+0x1234)".
std::string code_text(const void* code) {
  Dl_info info = {};
  if (!dladdr(code, &info) || !info.dli_fname) return fmt::format("{}", code);
  std::string file = info.dli_fname;
  file = file.substr(file.rfind('/') + 1);
  const uint64_t offset = reinterpret_cast<uint64_t>(code) - reinterpret_cast<uint64_t>(info.dli_fbase);
  return info.dli_sname ? fmt::format("{} ({}+{:#x})", demangled(info.dli_sname), file, offset) : fmt::format("{}+{:#x}", file, offset);
}

}  // namespace

void Apicheck::allocated(const Allocation& a) {
  allocations_.add(a.address, a.size, a.kind);
  if (a.kind != MemoryKind::managed && a.kind != MemoryKind::pinned) return;
  visible_begin_ = visible_end_ ? std::min(visible_begin_, a.address) : a.address;
  visible_end_ = std::max(visible_end_, a.address + a.size);
}

void Apicheck::released(const Allocation& a) {
  if (visible_end_) watch_.open_all();
  allocations_.remove(a.address, "");
  if (visible_end_) close_pages();
}

bool Apicheck::known_to_host(const Operation& op) const {
  const auto it = host_.find(op.work.stream);
  return it != host_.end() && op.number <= it->second;
}

/// Closes what operations use that the host has not waited for; nothing while some operation is carried out.
void Apicheck::close_pages() {
  watch_.open_all();
  if (performing_) return;
  for (const Operation& op : operations_) {
    if (!op.done || op.talks || known_to_host(op)) continue;
    close_footprint(op);
    close_spans(op);
  }
}

void Apicheck::close_range(const Operation& op, uint64_t begin, uint64_t end, bool reads_too) {
  auto f = std::make_shared<Finding>();
  f->check = "apicheck";
  f->kind = "host-race";
  const Block* b = allocations_.holder(begin, 1);
  f->message = fmt::format("of {}, which the {} in stream {} {}", b ? describe(*b) : "shared memory", op.name.empty() ? "operation" : op.name,
                           op.work.stream, reads_too ? "writes" : "reads");
  if (const Piece* piece = op.footprint.piece(begin / 64)) f->place = sites_[reads_too ? piece->writer : piece->reader];
  f->remedy = "let the host wait first: cudaStreamSynchronize, cudaDeviceSynchronize or cudaEventSynchronize";
  watch_.close(begin, end, reads_too, std::move(f));
}

/// Pages all of whose bytes, as far as they belong to the allocation, a kernel has written or read.
void Apicheck::close_footprint(const Operation& op) {
  std::map<uint64_t, bool> pages;  // address -> written
  op.footprint.each_page([&](uint64_t number, const Footprint::Page& page) {
    const uint64_t at = number * kPage;
    const Block* b = is_visible(at) ? allocations_.holder(at, 1) : nullptr;
    if (!b || !is_shared_with_host(*b)) return;
    bool written = true, used = true;
    for (uint64_t i = 0; i < Footprint::kPieces; i++) {
      const uint64_t need = bits_of_piece(at / 64 + i, b->begin, b->end);
      written &= (page[i].written & need) == need;
      used &= ((page[i].written | page[i].read) & need) == need;
    }
    if (used) pages[at] = written;
  });
  for (auto it = pages.begin(); it != pages.end();) {
    const auto [begin, written] = *it;
    uint64_t end = begin;
    for (; it != pages.end() && it->first == end && it->second == written; ++it) end += kPage;
    close_range(op, begin, end, written);
  }
}

void Apicheck::close_spans(const Operation& op) {
  for (const Span& s : op.spans) {
    if (op.work.op == HostOp::allocate || op.work.op == HostOp::free_ || !is_visible(s.begin)) continue;
    const Block* b = allocations_.holder(s.begin, 1);
    if (!b || !is_shared_with_host(*b)) continue;
    const uint64_t begin = (s.begin + kPage - 1) / kPage * kPage;
    const uint64_t end = s.end >= b->end ? (b->end + kPage - 1) / kPage * kPage : s.end / kPage * kPage;
    if (begin < end) close_range(op, begin, end, s.writes);
  }
}

/// Called where the program touched a closed page.
void Apicheck::host_access(const Finding& about, uint64_t address, bool writes, const void* code) {
  Finding f = about;
  f.address = address;
  f.message = fmt::format("the host {} the byte at {:#x} {}, and has not waited for it; the host is in {}", writes ? "writes" : "reads", address,
                          about.message, code_text(code));
  collector_.add(std::move(f));
}

}  // namespace orrery::sanitize
