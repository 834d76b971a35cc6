// timing/sm_units.h: what an SM's units take that no GPU's profile says: figures of one kind of SM, each with what it was measured by in brackets.
//
// Names in brackets are cases of calib/steps, records of calib/dissect, or programs of calib. Private to sm*.cc. Not here: latencies and rates that differ from GPU
// to GPU (figures.h), constants that one file alone uses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

namespace orrery::timing {

inline constexpr double kNever = std::numeric_limits<double>::infinity();
inline constexpr double kQueue = 24;        // cycles of work that a memory queue of a sub-core holds before issue stops
inline constexpr size_t kProductQueue = 6;   // wgmma of a sub-core that are issued and have not ended [wgmma.issued.1groups, 2groups: six, however many warps]
inline constexpr double kProductDone = 49;    // from the end of a wgmma until who waits for it goes on [wgmma.batch.1.wait0 to 8.wait0: 59 cycles beside the products, ten of them in the loop]
inline constexpr double kCopyBytes = 142;    // that arrive in shared memory in a cycle in which wgmma does not read [ring_one/5, ring_few/5: a step of 64 x 256 x 64 takes 606 and 641 cycles; effective, chosen with the next among the pairs that give these: docs/timing.md]
inline constexpr double kCopiesWait = 320;    // cycles of copies into shared memory that wait while wgmma reads there: what a step of a product brings [ring_few/4, 5]
inline constexpr double kWideArithmetic = 2; // ... and half-rate arithmetic [mixes of wide products and two and three pieces of logic (YLL, YLLL): 6.2 and 8.3 cycles]
inline constexpr double kWideSum = 4;        // for which it keeps the register file from being read where 64 bits are added that registers hold [only_near_b_4 of calib/naive.cu: 663 thousand cycles; 660 here, 585 without]
inline constexpr double kWideProduct = 2;    // cycles by which a product of 64 bits, or its upper half, holds its warp up [form.mul_hi_u32: 6.2 for 4, 9.2 in a chain; instruction.mul_lo_s64]
// Beside wgmma, which reads and writes its sums, whatever reads registers waits for them, and with it all that its sub-core would issue next:
// half-rate arithmetic [overlap.max, pack, logic; softmax.maxima: dependent ones 7 cycles apart for 4], integer products and halves [overlap.imad, half], special functions
// [overlap.special, softmax.exponentials].
inline constexpr double kHeldUp = 2.6, kHeldUpRegisters = 2.1;  // the second where A comes from registers
inline constexpr double kProductHeldUp = 2, kSpecialHeldUp = 2.4;
inline constexpr double kReadBeside = 3.46, kReadBesideRegisters = 3.84;  // a read from a bank by full-rate arithmetic takes so long [overlap.fma: from both banks by turns, 1.65 and 1.76 cycles; softmax.exponentials: from one, 3.5]
inline constexpr double kFmaDelays = 0.405;    // cycles by which it holds wgmma up [overlap.fma]
inline constexpr double kShuffleBeside = 9.4;   // cycles more [overlap.shuffle]
inline constexpr double kClusterBarrier = 60;  // from the last arrival [barrier.cluster: 354 with what is around it, of which the fence of an arrival that releases takes most]
inline constexpr double kFetchSpread = .125;   // of the time for which a block has waited for L2 or memory: how far blocks of a cluster that have are apart [calib/cluster_clocks.cu: what they wait for the last of 2, 4 and 8 beyond what that one waits]
inline constexpr double kIssueToHit = 4, kIssueToMiss = 13;  // of a load's latency that lie before its request [latency.global.ca.16KB, 16384KB]
inline constexpr double kCopySooner = 40;    // of a load's latency that a bulk copy does not take [tma.bulk.latency.l2.16B to 1024B]
inline constexpr double kStoredPiece = 2.9;  // cycles of the copy engine for a piece of a row that it stores, at least [box_store/8]
inline constexpr double kAddedSector = 1.17;  // times that its first sector takes an atomic unit, for each other one that the copy engine adds to in a line [box_add_same/64, box_add/8 to 128: 47, 34, 39 and 42 sectors a cycle]
inline constexpr double kIssueToRemote = 11;  // of a load from another block that lie before it leaves [latency.dsmem.2ctas.peer1]
inline constexpr double kCall = 23, kCallIssue = 3;  // cycles from a call or a return to the next instruction, and until another warp issues [call_leaf, call_nested]
inline constexpr double kCallAny = 83, kCallAnyIssue = 24;  // ... and from a call of what a register holds [call_pointer]
inline constexpr double kTakenBranch = 10;   // cycles to the next instruction, at least [yields.cu: loop8 29.1, loop32 44.3 cycles a turn; short_loop/4, side_none/1]
inline constexpr double kWriteQueue = 8;      // results that may wait for the write port of the register file
inline constexpr double kCountLanes = 4.25;   // wavefronts of a shared atomic that adds the number of lanes [shared_add: any addresses]
inline constexpr double kAtomicWave = 0.8;     // cycles of a wavefront of any other [shared_add_bins/8: 5.9 for 7.4, others: 2.8 for 3.5]
inline constexpr double kSwap = 58;            // until a compare-and-swap of a loop that stands for an atomic has answered [shared_add_float/1024]
inline constexpr uint16_t kS2r = 0x119, kS2ur = 0x1c3, kCacheControl = 0x18f;
inline constexpr double kUniformRegister = 29;  // until a special register is in a uniform one [overlap.alternate.fma.groups1: 73 cycles a product, of which this is one]
inline constexpr double kTriesEvery = 8200, kTestsEvery = 99, kPoll = 3;  // cycles from one look for an mbarrier's phase to the next, of try_wait and test_wait; instructions of each but the first [poll_try_1/4096, 16384; poll_test_1]
inline constexpr double kTestsApart = 7;      // cycles from one test_wait of an SM to the next, where more warps wait [looks.cu: crowd, 15 to 60 waiting warps look each 125 to 343 cycles]
inline constexpr uint32_t kAsleep = 12;       // warps of a sub-core that try_wait may keep asleep: where more wait, they look by turns ... [looks.cu: crowd, up to 8 look once, 15 and 16 again and again]
inline constexpr double kTriesApart = 46;     // ... so many cycles apart [the same: 3.5 and 3.8 looks in 1,840 and 1,930 cycles]
inline constexpr uint16_t kMembar = 0x192, kFenceView = 0x1c6, kStoreMatrix = 0x044, kCloseBulkGroup = 0x1b7;
inline constexpr double kFenceOfBlock = 4.4, kFenceOfBlockWaits = 6, kFenceOfBlockOrders = 20;  // barrier of memory for the block alone: one warp of an SM after another, and until its warp goes on: of membar, and of one behind a store or that acquires and releases [fence_block/8 to 32, fence_block/1, fence_block_store/1, fence.cta]
inline constexpr double kOff = 3;            // cycles of its sub-core's queue that an access takes which no lane executes [off_load to off_write: 1.5 to 6% too slow; tree_steps]
inline constexpr double kFencePipe = 4.3;      // of the pipe to shared memory that a fence of the async proxy takes [turns.fence_alone.warps16]
inline constexpr double kFenceWaits = 3.6;     // from there until its warp goes on [turns.fence_alone.warps1: 12.6 with the barrier of memory before it]
inline constexpr double kFenceDrains = 14, kFenceOfStores = 24;  // the same where something was stored since the last one [turns.end.fence]
inline constexpr double kBulkGroup = 10;       // closing a group of bulk stores, and looking whether one has ended [turns.group_wait: 20.2 both]
inline constexpr double kMatrixWaveQueue = 3.2, kMatrixWave = 1.07;  // of a wavefront of stmatrix: of its sub-core, of the pipe [turns.store_matrix.warps1: 12.8 for 4 of them, warps8: 34.2 for 32]
inline constexpr double kMatrixMove = 6.5;    // a transposed 8 x 8 piece [fragments_column_512/16]
inline constexpr double kPartialLine = 2;  // cycles for each line of a store of parts of sectors [lane_stores_4_8_warps/1, lane_stores_groups/2 and 4: 2.01 to 2.15; of whole sectors, groups/8: 1.1]
inline constexpr uint32_t kFewLines = 4;  // of a store, up to which the pipe takes a cycle for each whatever it has of them
inline constexpr double kConstantWord = 2.03;  // cycles for each different word of the constant bank that a warp reads [constants_chase/1024: 2.06, constants_words_2 to 32: 2.01 to 2.12]
inline constexpr uint64_t kLocalBase = uint64_t{1} << 52;  // where local memory lies here
inline constexpr double kSleep = 5.6, kSleepLeast = 68;  // cycles in which one warp of an SM goes to sleep, and from there until it wakes [sleep_many/0, sleep/0; sleep/50 to 100000: 1.0 times the next power of two]
inline constexpr double kMatchValue = 2;      // cycles for each different value that lanes hold, one warp of an SM at a time [match_values/1 to 32]
inline constexpr double kMatch = 60, kMatchWait = 4.9;  // until the result is there, and for each value [match_alone/1 to 32]
// Special registers hold the pipe of shuffles [special_sm/32, special_warp/32; special_shuffles/32: 3.02 with a shuffle]; those of a thread's and a block's
// place for less long [short_blocks/512: blocks that read six of them take 12 cycles a warp].
inline constexpr double kSpecial = 2, kSpecialPlace = 1;
inline constexpr double kRedux = 2;            // adding up over a warp holds what match does [reduce_all of members.cu]
inline constexpr double kMeet = 26;           // cycles in which lanes that had parted meet again [side_half/1, side_one/1]
inline constexpr double kRemoteSector = 3.1, kRemoteSectorWord = .2, kRemoteSame = 8;  // cycles in which additions to a sector of another block leave an SM: at least, each word, each lane on one word [remote_add_any, remote_add_lanes, remote_add_one]
inline constexpr double kCopied = 1.35, kCopiedLine = 1.16;  // cycles of the pipe that an asynchronous copy takes besides one for each line, and of each of very many [async_rates.cu: 3.1, 4.2, 6.1 and 38 for 1, 2, 4 and 32, of which 0.75 are loads of nothing that ptxas puts ahead of four]
inline constexpr double kCopiedPast = 0.67;  // ... of each wavefront where L1 does not keep it [past16_rows4_beside/4: 3.5 beside four loads]
inline constexpr double kMissedLine = 0.6;  // cycles of L1's pipe more for each line that is asked for [search/256 to 16384 of calib/steps/gathers.cu: 0.9 to 1.3 with the quarter that looking it up takes]
inline constexpr double kLinesLookedUp = 3.93;  // by L1 in a cycle [lane_lines.hit.4bytes.32lines.apart.4together.16warps]
inline constexpr double kWavefront = 2;         // cycles of what L1 gives back in one to a sub-core [lane_lines.hit.4bytes.32lines.one_bank.4together.1warps]
inline constexpr double kWordMoreMissed = 0.8;  // a word more of a bank where not all was in L1 [lane_lines.line.4bytes.32lines.one_bank.1together.1warps]
inline constexpr double kAnswered = 1.335, kAnsweredWordMore = .128;  // of the time of a sector in all of L2's atomic units together: an answer of one word, and each word more [add_answered, sector_answered: 39 and 23.5 a cycle]
inline constexpr double kWordMore = .073;  // of a sector's time in its unit: each word more [add_silent, sector_silent: 52 and 35 a cycle]
inline constexpr double kDoublePasses = 2.08, kDoubleWordMore = .11;  // sums of doubles: times of a sector of four words (one takes as long as any other word [random_add_f64]), and for each word more of a sector summed again [dense_f64/32, 256 and 4]
inline constexpr double kAtomicOut = .9, kAtomicWordOut = .165, kSwapOut = 1.25;  // cycles for which a line's words leave an SM: at least, each of one sector, and of compare and swap [add_silent/1, sector_silent/1, swap_answered/1]
inline constexpr double kRemoteLine = 1.62;   // cycles for each 128 bytes of shared memory in which a load from another block has a sector, whatever their banks, besides the sectors' own [take_apart_2, _4/128 to 516]
inline constexpr double kRemoteLineWide = 2.9;  // ... in clusters of more than four [calib/takes.cu: all warps read a word of each of 8 blocks, 8 to 64 warps: 4.7 to 6.5 cycles each; of 2 and 4 blocks about 3]
inline constexpr double kRemoteStore = 1.82, kRemoteStoreFar = 1.98;  // for each sector that a store to another block fills, or half of one that it does not [put16_2/1024, put8_2, put4_8_2, put4_32_2; put16_4/1024, put4_8_4, put4_32_4]
inline constexpr double kRemoteAdded = 2.3, kRemoteAddedWord = .115, kRemoteAddedSame = 3.5, kRemoteAddedSameFar = 4.6;  // for each sector and each word that red.async adds to, and each lane on one word [add_async_2_each/16, add_async_2_apart/32; add_async_2_apart, 4_apart/0]
inline constexpr size_t kClockReads = 100'000;
inline constexpr uint64_t kNear = 8;         // lines from one that is stored to another that joins it, at most [struct3_3 to struct7_3_read: nearly all join; pieces8_4_4: some; struct10_5_read, struct12_6: none]
inline constexpr double kJoinsWithin = 16;  // cycles from a store of a warp until one could be issued that joins it [struct3_3, struct7_3_read, one right behind the other: nearly all; store_parts, a turn of a loop: none]
inline constexpr uint32_t kInARow = 16;       // instructions from one store to another right behind it [pieces2_8_8_work4: as without]
struct RowLines {
  double together = 0, apart = 0;
};
inline constexpr double kLocal = 0.5, kLocalMore = 0.95;  // share of the stores of parts of words in local memory that join (sm_stores.cc)
inline constexpr RowLines kRow{12, 34};       // lines of stores one right behind the other: so many join, of so many none [pieces]
inline constexpr RowLines kWaited{6, 12};     // the most of one of them, where warps load as much before [move_4_5_5, move_8_3_3: 0.87 to 0.98 join; move_4_7_7, 4_4_7, 16_2_2: 0.4 to 0.7; move_4_9_9: 0.3; move_16_3_3: 0.1]
inline constexpr RowLines kWaitedAlone{8, 18};  // where no other warps could store [move_8_4_4_work: all; move_16_3_3_work: 0.7; move_16_4_4_work: 0.2]
inline constexpr uint32_t kLooksBack = 256;   // instructions before a row in which that is looked for
inline constexpr double kAtOnce = 3;          // cycles within which a store leaves that finds nothing ahead of it
inline constexpr uint32_t kFewestInRow = 3;   // lines that a store counts as, at least [pieces1_8_8: as 24]
inline constexpr size_t kCompeting = 2;      // warps of a sub-core that could store besides one and so come between its stores [go_4_7_7/8: 0.84 join; /32: 0.05]
inline constexpr double kOnTheWay = 300;     // cycles of writes that are between SMs and L2; the rest waits in the SMs [store_parts_few]
inline constexpr double kOutstanding = 1200;  // cycles of traffic that may be queued towards L2

}  // namespace orrery::timing
