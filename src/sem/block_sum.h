// sem/block_sum.h: the ways to compute a tile, which sem/numerics.h's multiply() chooses between.
//
// The tile loops exist for two processors (block_sum.inc, compiled twice); outputs that they cannot do are computed
// by the definition.
#pragma once
#include "sem/numerics.h"

namespace orrery::sem {

/// multiply() output by output. wanted: m x n flags of the outputs to compute (null: all); others are left alone.
void multiply_by_definition(const SumRule& rule, Element a_type, Element b_type, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k,
                            const uint8_t* wanted, ChosenRows chosen = {});

/// multiply() except for the outputs that it flags in `left` (m x n, zero before), which keep their C: NaN, infinity,
/// and exponents so far from zero that f32 cannot hold the terms. order: the sequence in which k is summed. True when
/// any flag was set.
using SumTile = bool (*)(const SumRule& rule, Element a_type, Element b_type, const uint8_t* order, const uint32_t* a, const uint32_t* b, uint32_t* cd,
                         int m, int n, int k, ChosenRows chosen, uint8_t* left);
using FastTile = void (*)(Element a_type, Element b_type, bool half_result, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k,
                          ChosenRows chosen);
bool sum_tile_v3(const SumRule&, Element, Element, const uint8_t*, const uint32_t*, const uint32_t*, uint32_t*, int, int, int, ChosenRows, uint8_t*);
bool sum_tile_v4(const SumRule&, Element, Element, const uint8_t*, const uint32_t*, const uint32_t*, uint32_t*, int, int, int, ChosenRows, uint8_t*);
void fast_tile_v3(Element, Element, bool, const uint32_t*, const uint32_t*, uint32_t*, int, int, int, ChosenRows);
void fast_tile_v4(Element, Element, bool, const uint32_t*, const uint32_t*, uint32_t*, int, int, int, ChosenRows);

}  // namespace orrery::sem
