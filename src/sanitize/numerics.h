// sanitize/numerics.h: where NaN and Inf are born: results that have one although no input had.
//
// One finding per instruction, with the count of lanes. Conversions to a narrower type that make an infinity, or that
// saturate, count as overflow. A NaN that moves on through other instructions is not reported again.
// Not here: the results of matrix instructions.
#pragma once
#include <map>

#include "sanitize/collector.h"

namespace orrery::sanitize {

class Numerics : public exec::Observer {
 public:
  explicit Numerics(Collector& collector) : collector_(collector) {}
  unsigned wants() const override { return exec::kObserveValues; }
  bool serial() const override { return false; }
  void computed(const exec::Where&, uint32_t special) override;

 private:
  void saturated(const exec::Where& where, uint32_t lanes, isa::Type type);

  Collector& collector_;
};

}  // namespace orrery::sanitize
