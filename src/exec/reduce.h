// exec/reduce.h: element-wise reduction of one array into another, as bulk copies and tensor stores do it.
//
// Each element is updated atomically on the host, since blocks of other workers may reduce into the same memory.
// Source: PTX ISA manual, cp.reduce.async.bulk, red.async.
#pragma once
#include <cstddef>
#include <cstdint>

#include "isa/form.h"

namespace orrery::exec {

enum class ReduceKind : uint8_t { add, min, max, inc, dec, and_, or_, xor_ };

/// The reduction that the form's words name.
ReduceKind reduce_kind(const isa::Form& form);

/// dst[i] = op(dst[i], src[i]) for `bytes` bytes of elements of `type`; the addresses are aligned to the element.
/// `ftz`: f32 additions flush subnormal inputs and results. False when the type has no such operation.
bool reduce(std::byte* dst, const std::byte* src, uint64_t bytes, isa::Type type, ReduceKind kind, bool ftz);

}  // namespace orrery::exec
