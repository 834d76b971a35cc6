// sem/block_sum_v3.cc: the tile loops for x86-64-v3.
#include "sem/block_sum.inc"

namespace orrery::sem {

bool sum_tile_v3(const SumRule& rule, Element a_type, Element b_type, const uint8_t* order, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m,
                 int n, int k, ChosenRows chosen, uint8_t* left) {
  return sum_tile(rule, a_type, b_type, order, a, b, cd, m, n, k, chosen, left);
}
void fast_tile_v3(Element a_type, Element b_type, bool half_result, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k,
                  ChosenRows chosen) {
  fast_tile(a_type, b_type, half_result, a, b, cd, m, n, k, chosen);
}

}  // namespace orrery::sem
