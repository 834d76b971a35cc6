// sem/tensor.h: the meaning of tensor-core instructions for one warp: mma, wmma, wgmma, and the moves of matrices
// between registers and shared memory.
//
// Registers are arrays of 32 lanes in the frame layout of sem/pure.h (uint32_t[32]; uint64_t[32] for f64), in operand
// order after flattening. All 32 lanes take part; a guard must be uniform.
//
// Memory is the caller's: addresses were translated and checked before. A wgmma warp reads shared memory through the
// window that its descriptors address. wgmma is asynchronous: the caller decides when to call.
//
// Not here: the sums themselves (sem/numerics.h), descriptors of TMA (exec/).
// Source: PTX ISA manual, "Warp Level Matrix Multiply-Accumulate" and "Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate"; layouts and results compared with an H200 (tests/vectors).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "isa/form.h"
#include "sem/numerics.h"

namespace orrery::sem {

/// mma, mma.sp, wmma.mma: d = destination registers; s = registers of A, B, C, then for .sp the metadata and the
/// selector (lane 0 counts). False when the form has no meaning (sm_100 forms, or types the form cannot have).
bool can_mma(const isa::Form& form);
void run_mma(const isa::Form& form, void* const* d, const void* const* s, const Numerics& numerics);

/// ldmatrix: row[l] is the row that lane l names (16 bytes; only the lanes that the form uses: 8, 16 or 32).
void run_ldmatrix(const isa::Form& form, void* const* d, const uint8_t* const* row);
/// stmatrix: row[l] is where the row that lane l names goes.
void run_stmatrix(const isa::Form& form, const void* const* s, uint8_t* const* row);
/// movmatrix: one register in, one out.
void run_movmatrix(void* d, const void* s);
/// How many rows (lanes that give an address) ldmatrix or stmatrix uses.
int matrix_rows(const isa::Form& form);

/// Bytes from the matrix address to the end of the last element.
uint64_t wmma_extent(const isa::Form& form, uint32_t stride);
/// Loads or stores a whole matrix; base covers wmma_extent() bytes.
void run_wmma_load(const isa::Form& form, void* const* d, const uint8_t* base, uint32_t stride);
void run_wmma_store(const isa::Form& form, const void* const* s, uint8_t* base, uint32_t stride);

/// What a wgmma instruction of one warp reads besides registers.
struct WgmmaOperands {
  int warp = 0;                      // rank in the warpgroup, 0..3: rows 16 * warp ..
  const void* const* a = nullptr;    // A registers, or null: A is in shared memory
  uint64_t a_desc = 0, b_desc = 0;   // matrix descriptors
  bool keep = true;                  // scale-d
  int scale_a = 1, scale_b = 1;      // 1 or -1
  bool trans_a = false, trans_b = false;
  const void* metadata = nullptr;    // .sp: one register
  int selector = 0;                  // .sp
  const uint8_t* shared = nullptr;   // the CTA's shared memory window, address 0 of descriptors
  uint32_t shared_bytes = 0;         // its size; reads beyond it give zero and make run_wgmma return false
  std::vector<uint32_t>* visited = nullptr;  // when given: gets the address of every 16 bytes of shared memory that are read
};
bool can_wgmma(const isa::Form& form);
/// Computes the warp's 16 rows: d holds C before and D after. False when a descriptor pointed beyond shared memory.
bool run_wgmma(const isa::Form& form, void* const* d, const WgmmaOperands& operands, const Numerics& numerics);
/// Instructions one after the other with the same form and the same D, by several warps of a warpgroup (at most 4):
/// operands[step * warps + warp], d[warp]. Warps differ in `warp` and in A's registers and metadata only, steps in whatever
/// they like. False as above.
bool run_wgmma_chain(const isa::Form& form, void* const* const* d, int warps, std::span<const WgmmaOperands> operands, const Numerics& numerics);
/// Appends the addresses of the 16 bytes of shared memory that run_wgmma would read to operands.visited.
void visit_wgmma(const isa::Form& form, const WgmmaOperands& operands);

/// The numerics that a form would use, for reports: "hopper: blocks of 16, 25 bits".
std::string describe_sum(const isa::Form& form, const Numerics& numerics);

}  // namespace orrery::sem
