// sem/numerics.h: how a tensor core adds up products, as data.
//
// One instruction is a sequence of block sums. In a block: products are exact (significand times significand, exponent
// ea + eb, not renormalised); the largest exponent among the products and, where it takes part, C is found; every term
// is cut toward zero to `fraction_bits` below that exponent; the terms are added as integers. The sum, rounded, is the
// C of the next block.
//
//   machine   f16, bf16          tf32          fp8 (native)            f64
//   Volta     4 products, 23     -             -                       -
//   Turing    8, 24 (f16 only)   -             -                       -
//   Ampere    8, 24              4, 24         -                       chain of fused multiply-adds
//   Ada       8, 24              4, 24         16, 13 (result 13)      chain
//   Hopper    16, 25             8, 25         32, 13 (wgmma only)     chain
//
// On Hopper mma.sync with fp8 is not native: factors become f16, two chained f16 sums start from zero, and C is added
// by an ordinary nearest-even addition.
// Source: recorded results of an H200 (docs/numerics.md); published results for the others (MMA-Sim, Fasi et al.).
#pragma once
#include <cstdint>
#include <string_view>

namespace orrery::sem {

enum class TensorCore : uint8_t { volta, turing, ampere, ada, hopper };

/// The element formats of tensor-core factors and sums.
enum class Element : uint8_t { f16, bf16, tf32, e4m3, e5m2, f32, f64, s8, u8, s4, u4, b1, s32 };

struct SumRule {
  int block = 16;           // products per block
  int fraction_bits = 25;   // kept below the largest exponent
  int result_bits = 23;     // fraction bits of an f32 result (an f16 result has 10, nearest even)
  bool half_result = false; // f16 accumulator
  bool late_c = false;      // C is not in the blocks: it is added afterwards, nearest even
  bool interleaved = false; // k is taken with k % 4 < 2 first, then the rest
  bool operator==(const SumRule&) const = default;
};

struct Numerics {
  TensorCore core = TensorCore::hopper;
  bool fast = false;  // plain fused multiply-adds in f32 instead
};

/// The rule of one instruction: a and b are its factors, `half_result` says that it accumulates in f16, `native_fp8`
/// that fp8 factors are multiplied as such (wgmma on Hopper; every fp8 mma on Ada).
SumRule sum_rule(TensorCore core, Element a, Element b, bool half_result, bool native_fp8);

/// The tensor core of an `sm_NN` machine.
TensorCore tensor_core_of(int sm);

/// Of a sparse a: by which row of b each of its elements is multiplied (m x k of them), and how many rows b has. None: element k
/// of a row by row k.
struct ChosenRows {
  const uint16_t* row = nullptr;
  int count = 0;
};

/// d[i][j] = c[i][j] + sum over k of a[i][k] b[k][j], as bits, all row-major: a is m x k, b is k x n, cd is m x n and
/// holds C before and D after. Element bits are right-aligned; tf32 and f32 are 32-bit words (tf32 ignores
/// the low 13 bits), f16 accumulators lie in the low 16 bits. k at most 256.
void multiply(const SumRule& rule, Element a_type, Element b_type, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k,
              ChosenRows chosen = {});
/// The same with plain f32 multiply-adds; its error is that of an f32 sum in order.
void multiply_fast(Element a_type, Element b_type, bool half_result, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k,
                   ChosenRows chosen = {});

}  // namespace orrery::sem
