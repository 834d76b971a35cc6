// sanitize/hangcheck.h: a launch that cannot go on, as a finding; the explanation is the executor's (exec/wait_graph.h).
#pragma once
#include "sanitize/collector.h"

namespace orrery::sanitize {

class Hangcheck : public exec::Observer {
 public:
  explicit Hangcheck(Collector& collector) : collector_(collector) {}
  unsigned wants() const override { return 0; }
  bool serial() const override { return true; }
  void hang(const exec::RunState&, const exec::WaitGraph& graph, const std::string& text) override;

 private:
  Collector& collector_;
};

}  // namespace orrery::sanitize
