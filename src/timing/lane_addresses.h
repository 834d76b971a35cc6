// timing/lane_addresses.h: what the addresses of a warp's lanes come to: lines of global memory, wavefronts of shared memory.
//
// `address` has 32 entries, of which those of the lanes `mask` count.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::timing {

/// The lines that accesses of `bytes` a lane touch (address / 128 << 4 | sectors), appended to `out`; returns how many.
uint32_t coalesce(const uint64_t* address, uint32_t mask, uint32_t bytes, std::vector<uint64_t>& out);
/// Of lines that coalesce() found for accesses of `bytes` a lane, appended to `out` in their order: the sectors of each of which lanes have every byte.
void filled_sectors(const uint64_t* address, uint32_t mask, uint32_t bytes, size_t first, uint32_t n, std::vector<uint64_t>& out);
/// What copies of 16 bytes a lane from `source` to shared memory at `target`, past L1, ask L2 for: a request for each line of memory, line of
/// shared memory and way in which pieces change places within 64 bytes (bits 4 and 5 of source ^ target: halves of a sector, sectors of a pair), of
/// which each sector goes to one place. A sector whose halves go different ways comes twice. Those of a line follow each other; where all are for
/// the same sectors L2 looks these up once [calib/steps/async_rows.cu, async_places.cu].
uint32_t coalesce_copies(const uint64_t* source, const uint64_t* target, uint32_t mask, std::vector<uint64_t>& out);
/// How many different addresses lanes have.
uint32_t distinct(const uint64_t* address, uint32_t mask);
/// Wavefronts of a shared access: the most different words that a bank has to give. 8 and 16 bytes a lane are served by half warps; 8 bytes
/// are not when all lanes have the address of their neighbour or of the next but one (lane ^ 1, lane ^ 2) [calib/steps/banks.cu: banks8].
/// The counter of wavefronts does not part 16 bytes either [banks16], but what comes back takes as long as halves (broadcast_mix4).
uint32_t wavefronts(const uint64_t* address, uint32_t mask, uint32_t bytes);
/// The wavefronts of one instruction's shared accesses: most have the pattern of the one before, whose figures are kept.
class AccessPattern {
 public:
  /// Wavefronts of an access, and what it would have as a part of accesses of 8 bytes a lane (low half) and 16 (high half).
  struct Waves {
    uint32_t own = 0, merged = 0;
  };
  Waves waves(const uint64_t* address, uint32_t mask, uint32_t bytes);

 private:
  uint64_t offsets_[32] = {};  // of the last access: from its first lane's address
  uint32_t mask_ = 0, bytes_ = 0, place_ = 0;  // place: of the first lane in 16 bytes
  Waves waves_;
};

/// How many pieces of 32 bytes, and of 128, the words of the lanes lie in.
uint32_t sectors_of(const uint64_t* address, uint32_t mask);
uint32_t lines_of(const uint64_t* address, uint32_t mask);
/// Pieces of 32 bytes that accesses of `bytes` a lane fill, and halves of those that they touch and do not fill.
uint32_t filled_or_halves(const uint64_t* address, uint32_t mask, uint32_t bytes);
/// Of an atomic on shared memory: lanes with the same word go one after the other.
uint32_t atomic_wavefronts(const uint64_t* address, uint32_t mask);
/// The most lanes of the mask that have one address.
uint32_t most_on_one_word(const uint64_t* address, uint32_t mask);

}  // namespace orrery::timing
