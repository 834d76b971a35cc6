// exec/builtins.cc: see builtins.h. Arguments arrive in the caller's .param slots (local memory) or registers.
#include "exec/builtins.h"

#include <fmt/format.h>

#include "exec/device_services.h"
#include "exec/heap.h"

namespace orrery::exec {

using ptx::Operand;
using ptx::OperandKind;
using Builtin = Next (*)(Stepper&, const Decoded&);

namespace {

void copy_argument(Stepper& s, const Decoded& d, size_t index, int lane, void* to, size_t bytes) {
  const auto& args = d.instr->ops[2].parts;
  if (index >= args.size()) return;
  const Operand& o = args[index];
  if (o.kind == OperandKind::imm) {
    std::memcpy(to, &o.value, std::min<size_t>(bytes, 8));
  } else if (o.kind == OperandKind::local_var) {
    const uint64_t at = s.local_base() + uint64_t(o.value), left = s.w.local_stride - std::min<uint64_t>(at, s.w.local_stride);
    std::memcpy(to, s.w.local + uint64_t(lane) * s.w.local_stride + at, std::min<size_t>(bytes, left));
  } else {
    const lower::Register& r = s.code->program->regs[o.id];
    const size_t element = r.kind == lower::RegKind::word ? 4 : 8;
    std::memcpy(to, s.frame + r.offset + element * size_t(lane), std::min(bytes, element));
  }
}

uint64_t argument(Stepper& s, const Decoded& d, size_t index, int lane, uint32_t bytes) {
  uint64_t v = 0;
  copy_argument(s, d, index, lane, &v, bytes);
  return v;
}

void result(Stepper& s, const Decoded& d, int lane, uint64_t v, uint32_t bytes) {
  if (d.instr->ops[0].parts.empty()) return;
  const Operand& o = d.instr->ops[0].parts[0];
  if (o.kind == OperandKind::local_var) {
    std::memcpy(s.w.local + uint64_t(lane) * s.w.local_stride + s.local_base() + uint64_t(o.value), &v, bytes);
  } else if (o.kind == OperandKind::reg) {
    const lower::Register& r = s.code->program->regs[o.id];
    std::byte* p = s.frame + r.offset;
    if (r.kind == lower::RegKind::word) reinterpret_cast<uint32_t*>(p)[lane] = uint32_t(v);
    else reinterpret_cast<uint64_t*>(p)[lane] = v;
  }
}

std::string_view text_at(uint64_t address) {
  return address ? std::string_view(reinterpret_cast<const char*>(address)) : std::string_view("(null)");
}

Next do_vprintf(Stepper& s, const Decoded& d) {
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t format = argument(s, d, 0, lane, 8), args = argument(s, d, 1, lane, 8);
    if (!translate(s, isa::Space::none, format, 1, 1, lane, false)) return Next::fault;
    const std::string text = format_printf(text_at(format), reinterpret_cast<const std::byte*>(args));
    if (s.run.machine.print) s.run.machine.print(text);
    result(s, d, lane, uint64_t(text.size() ? 1 : 0), 4);
  }
  return Next::next;
}

uint64_t allocate(Stepper& s, int lane, uint64_t bytes) {
  const uint64_t p = s.run.machine.heap->allocate(bytes);
  if (Observer* o = s.observer(); o && p) o->heap_allocate(s.where(), lane, p, bytes);
  return p;
}

bool release(Stepper& s, int lane, uint64_t p) {
  if (Observer* o = s.observer(); o && p) o->heap_free(s.where(), lane, p);
  return s.run.machine.heap->release(p);
}

Next do_malloc(Stepper& s, const Decoded& d) {
  for_lanes(s.mask, [&](int lane) { result(s, d, lane, allocate(s, lane, argument(s, d, 0, lane, 8)), 8); });
  return Next::next;
}

Next do_free(Stepper& s, const Decoded& d) {
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t p = argument(s, d, 0, lane, 8);
    if (!release(s, lane, p))
      return s.fault(FaultKind::illegal_address, lane, p, fmt::format("free of {:#x}, which device malloc did not return", p));
  }
  return Next::next;
}

/// void __assertfail(const char* message, const char* file, unsigned line, const char* function, size_t char_size)
Next do_assertfail(Stepper& s, const Decoded& d) {
  for_lanes(s.mask, [&](int lane) {
    const std::string line = fmt::format(
        "{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.\n", text_at(argument(s, d, 1, lane, 8)),
        argument(s, d, 2, lane, 4), text_at(argument(s, d, 3, lane, 8)), s.cta.ctaid[0], s.cta.ctaid[1], s.cta.ctaid[2],
        s.w.tid_x[lane], s.w.tid_y[lane], s.w.tid_z[lane], text_at(argument(s, d, 0, lane, 8)));
    if (s.run.machine.print_error) s.run.machine.print_error(line);
  });
  const int lane = std::countr_zero(s.mask);
  return s.fault(FaultKind::assertion, lane, 0, fmt::format("assert({})", text_at(argument(s, d, 0, lane, 8))));
}

Builtin find_builtin(std::string_view name) {
  if (name == "vprintf") return do_vprintf;
  if (name == "malloc") return do_malloc;
  if (name == "free") return do_free;
  if (name == "__assertfail") return do_assertfail;
  return nullptr;
}

/// A function of the machine around the grid, thread by thread.
Next call_service(Stepper& s, const Decoded& d, const ptx::Function& f) {
  const uint32_t bytes = f.n_rets ? uint32_t(std::min<uint64_t>(8, f.locals[0].size)) : 0;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    DeviceCall call(s, d, lane);
    const std::optional<uint64_t> value = s.run.machine.services ? s.run.machine.services->call(f.name, call) : std::nullopt;
    if (call.faulted()) return Next::fault;
    if (!value) return s.fault(FaultKind::unsupported, lane, 0, fmt::format("device function {} is not provided", f.name));
    result(s, d, lane, *value, bytes);
  }
  return Next::next;
}

}  // namespace

Next call_system_function(Stepper& s, const Decoded& d, const ptx::Function& f) {
  if (const Builtin builtin = find_builtin(f.name)) return builtin(s, d);
  return call_service(s, d, f);
}

void DeviceCall::copy_argument(size_t index, void* to, size_t bytes) const { exec::copy_argument(s_, d_, index, lane_, to, bytes); }

uint64_t DeviceCall::allocate(uint64_t bytes) { return exec::allocate(s_, lane_, bytes); }
bool DeviceCall::release(uint64_t address) { return exec::release(s_, lane_, address); }

bool DeviceCall::write(uint64_t address, const void* from, uint32_t bytes) {
  if (Observer* const o = s_.observer(); o && (o->wants() & kObserveMemory)) {
    Access access;
    access.where = s_.where();
    access.where.mask = uint32_t{1} << lane_;
    access.kind = AccessKind::store;
    access.bytes = bytes;
    access.address[lane_] = address;
    o->access(access);
  }
  std::byte* const to = translate(s_, isa::Space::none, address, bytes, 1, lane_, true);
  faulted_ |= !to;
  if (to) std::memcpy(to, from, bytes);
  return to != nullptr;
}

uint64_t DeviceCall::thread() const { return (s_.cta.cta_linear * 32 + s_.w.warp_id) * 32 + uint64_t(lane_); }

namespace {

/// Reads arguments one after the other at their natural alignment.
struct Arguments {
  const std::byte* base;
  size_t at = 0;
  uint64_t take(size_t bytes) {
    at = (at + bytes - 1) / bytes * bytes;
    uint64_t v = 0;
    std::memcpy(&v, base + at, bytes);
    at += bytes;
    return v;
  }
};

std::string format_one(std::string spec, char kind, Arguments& args) {
  char out[512];
  const bool is_long = spec.find('l') != std::string::npos || spec.find('j') != std::string::npos ||
                       spec.find('z') != std::string::npos || spec.find('t') != std::string::npos;
  std::string flags;
  for (char c : spec)
    if (!strchr("hljztL", c)) flags += c;
  switch (kind) {
    case 'd': case 'i': {
      const uint64_t v = args.take(is_long ? 8 : 4);
      snprintf(out, sizeof out, (flags + "lld").c_str(), is_long ? (long long)v : (long long)int32_t(v));
      break;
    }
    case 'u': case 'x': case 'X': case 'o':
      snprintf(out, sizeof out, (flags + "ll" + kind).c_str(), (unsigned long long)args.take(is_long ? 8 : 4));
      break;
    case 'c': snprintf(out, sizeof out, (flags + "c").c_str(), int(args.take(4))); break;
    case 'p': snprintf(out, sizeof out, (flags + "p").c_str(), reinterpret_cast<void*>(args.take(8))); break;
    case 's': {
      const uint64_t p = args.take(8);
      const std::string text(text_at(p));
      std::string big(text.size() + 512, '\0');
      big.resize(size_t(std::max(0, snprintf(big.data(), big.size(), (flags + "s").c_str(), text.c_str()))));
      return big;
    }
    default: snprintf(out, sizeof out, (flags + kind).c_str(), std::bit_cast<double>(args.take(8))); break;
  }
  return out;
}

}  // namespace

std::string format_printf(std::string_view format, const std::byte* args) {
  Arguments in{args};
  std::string out;
  for (size_t i = 0; i < format.size(); i++) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      out += '%';
      i++;
      continue;
    }
    std::string spec = "%";
    size_t k = i + 1;
    while (k < format.size() && strchr("-+ #0123456789.*hljztL", format[k])) {
      if (format[k] == '*') spec += std::to_string(int32_t(in.take(4)));
      else spec += format[k];
      k++;
    }
    if (k >= format.size() || !strchr("diuxXocpsfFeEgGaA", format[k])) {
      out += format.substr(i, k - i);
      i = k - 1;
      continue;
    }
    out += format_one(spec, format[k], in);
    i = k;
  }
  return out;
}

}  // namespace orrery::exec
