// exec/wait_state.h: the state of stopped blocks in the form that wait_graph.cc (structure) and wait_notes.cc (causes)
// share. Pointers into the launch: gone when it is.
#pragma once
#include <map>
#include <vector>

#include "exec/stepper.h"
#include "exec/wait_graph.h"
#include "exec/wait_log.h"

namespace orrery::exec {

/// Lanes of one warp.
struct Lanes {
  const WarpContext* warp = nullptr;
  uint32_t mask = 0;
};

/// Groups of one block that wait at the same instruction for the same thing; the Waiter of the same index.
struct WaitingGroups {
  const CtaContext* cta = nullptr;
  const DecodedProgram* code = nullptr;
  uint32_t pc = 0;
  GroupState state = GroupState::ready;
  int resource = -1;
  std::vector<Lanes> lanes;
};

struct Thing {  // the Resource of the same index
  WaitKind kind = WaitKind::mbarrier;
  const CtaContext* cta = nullptr;
  const uint64_t* word = nullptr;        // mbarrier
  uint32_t number = 0;                   // barrier of the block
  const WarpContext* warp = nullptr;     // lanes
  uint32_t members = 0;
  uint64_t address = 0;                  // memory
};

struct WaitState {
  const RunState& run;
  std::span<const CtaContext* const> blocks;
  std::vector<WaitingGroups> groups;
  std::vector<Thing> things;
};

std::string who(const std::vector<Lanes>& lanes, bool with_block);
std::string block_text(const CtaContext& cta);
/// "mbarrier full[2]": the variable that holds the shared address.
std::string shared_name(const RunState& run, uint64_t offset, uint32_t element);
/// Threads of the block's barrier that have come and that must.
uint32_t barrier_expected(const CtaContext& cta, uint32_t number);
/// The block of `blocks` whose shared memory holds `word`; null when none does.
const CtaContext* owner_of(std::span<const CtaContext* const> blocks, const void* word);
/// The bits of the mbarrier that is waited for.
uint64_t word_of(const Thing& thing);
/// What is known of an mbarrier's past; null when nothing is.
const MbarrierHistory* history_of(const Thing& thing);
WaitEvent event_of(const MbarrierNote& note, bool with_block);

/// Adds to `graph.notes` what probably went wrong.
void find_causes(const WaitState& state, WaitGraph& graph);

}  // namespace orrery::exec
