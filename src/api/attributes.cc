// Device attributes and properties; see attributes.h. Texture limits are those of compute capability 9.0.
#include "api/attributes.h"

#include <climits>
#include <cstring>

namespace orrery::api {
namespace {

int64_t optional_bytes(const Profile& profile, FieldId field, Bytes (Profile::*get)() const) {
  return profile.has(field) ? (profile.*get)().count() : 0;
}

struct Row {
  int attribute;
  int64_t (*value)(const device::Device&);
};

#define OF(expression) [](const device::Device& d) -> int64_t { [[maybe_unused]] const Profile& p = d.profile(); return int64_t(expression); }
const Row kRows[] = {
    {1, OF(p.max_threads_per_block())}, {2, OF(p.max_block_x())}, {3, OF(p.max_block_y())}, {4, OF(p.max_block_z())},
    {5, OF(p.max_grid_x())}, {6, OF(p.max_grid_y())}, {7, OF(p.max_grid_z())}, {8, OF(p.shared_per_block().count())},
    {9, OF(p.constant_memory().count())}, {10, OF(p.warp_size())}, {11, OF(INT_MAX)}, {12, OF(p.registers_per_block())},
    {13, OF(p.clock_max().value() / 1000)}, {14, OF(512)}, {15, OF(1)}, {16, OF(p.sm_count())}, {17, OF(0)}, {18, OF(0)}, {19, OF(1)}, {20, OF(0)},
    {21, OF(131072)}, {22, OF(131072)}, {23, OF(65536)}, {24, OF(16384)}, {25, OF(16384)}, {26, OF(16384)}, {27, OF(32768)}, {28, OF(32768)},
    {29, OF(2048)}, {30, OF(512)}, {31, OF(1)}, {32, OF(p.ecc())}, {kPciBusId, OF(0x10 + d.ordinal())}, {34, OF(0)}, {35, OF(0)},
    {36, OF(p.clock_memory().value() / 1000)}, {37, OF(p.memory_bus_width())}, {38, OF(p.l2_size().count())}, {39, OF(p.max_threads_per_sm())},
    {40, OF(p.copy_engines())}, {41, OF(1)}, {42, OF(32768)}, {43, OF(2048)}, {44, OF(1)}, {45, OF(32768)}, {46, OF(32768)}, {47, OF(8192)}, {48, OF(8192)},
    {49, OF(32768)}, {50, OF(0)}, {51, OF(32)}, {52, OF(32768)}, {53, OF(32768)}, {54, OF(2046)}, {55, OF(32768)}, {56, OF(131072)}, {57, OF(65536)},
    {58, OF(16384)}, {59, OF(16384)}, {60, OF(16384)}, {61, OF(32768)}, {62, OF(2048)}, {63, OF(32768)}, {64, OF(32768)}, {65, OF(2048)},
    {66, OF(32768)}, {67, OF(32768)}, {68, OF(2046)}, {69, OF(1 << 28)}, {70, OF(131072)}, {71, OF(65000)}, {72, OF(2097120)}, {73, OF(32768)},
    {74, OF(32768)}, {75, OF(p.compute_major())}, {76, OF(p.compute_minor())}, {77, OF(32768)}, {78, OF(1)}, {79, OF(1)}, {80, OF(1)},
    {81, OF(p.shared_per_sm().count())}, {82, OF(p.registers_per_sm())}, {83, OF(1)}, {84, OF(0)}, {85, OF(0)}, {86, OF(0)},
    {87, OF(p.rate_fp32().value() / std::max(1.0, p.rate_fp64().value()))}, {88, OF(0)}, {89, OF(1)}, {90, OF(1)}, {91, OF(1)}, {92, OF(1)}, {93, OF(1)},
    {94, OF(1)}, {95, OF(1)}, {96, OF(0)}, {97, OF(p.shared_per_block_optin().count())}, {98, OF(1)}, {99, OF(1)}, {100, OF(0)}, {101, OF(0)},
    {102, OF(1)}, {103, OF(1)}, {104, OF(0)}, {105, OF(0)}, {106, OF(p.max_blocks_per_sm())}, {107, OF(0)},
    {108, OF(optional_bytes(p, FieldId::l2_persisting_max, &Profile::l2_persisting_max))},
    {109, OF(optional_bytes(p, FieldId::l2_window_max, &Profile::l2_window_max))}, {110, OF(0)}, {111, OF(p.shared_reserved_per_block().count())},
    {112, OF(0)}, {113, OF(0)}, {114, OF(0)}, {115, OF(1)}, {116, OF(0)}, {117, OF(0)}, {118, OF(0)}, {119, OF(0)}, {120, OF(p.cluster_supported())},
    {121, OF(0)}, {122, OF(1)}, {123, OF(1)}, {124, OF(0)}, {125, OF(0)}, {126, OF(1)}, {127, OF(p.compute_major() >= 9)}, {128, OF(0)}, {129, OF(0)},
    {130, OF(0)}, {131, OF(-1)}, {132, OF(0)}, {133, OF(0)}, {134, OF(0)}, {135, OF(0)}, {136, OF(0)}, {137, OF(0)}, {138, OF(0)}, {139, OF(0)},
    {140, OF(0)}, {141, OF(0)}, {142, OF(0)}, {143, OF(0)}, {144, OF(0)}, {145, OF(0)}, {146, OF(0)}, {147, OF(0)}};
#undef OF

// Fields that both layouts have.
template <class Prop>
void fill_common(Prop& out, const device::Device& device) {
  const Profile& p = device.profile();
  auto get = [&](int attribute) { return device_attribute(device, attribute); };
  out = {};
  std::snprintf(out.name, sizeof out.name, "%s", p.name().c_str());
  std::memcpy(out.uuid.bytes, "orrery-gpu-\0\0\0\0\0", 16);
  out.uuid.bytes[15] = char('0' + device.ordinal());
  out.totalGlobalMem = device.total_memory();
  out.sharedMemPerBlock = size_t(get(8));
  out.regsPerBlock = get(12);
  out.warpSize = get(10);
  out.memPitch = INT_MAX;
  out.maxThreadsPerBlock = get(1);
  for (int i = 0; i < 3; i++) out.maxThreadsDim[i] = get(2 + i), out.maxGridSize[i] = get(5 + i);
  out.totalConstMem = size_t(get(9));
  out.major = get(75), out.minor = get(76);
  out.textureAlignment = 512, out.texturePitchAlignment = 32, out.surfaceAlignment = 512;
  out.multiProcessorCount = get(16);
  out.canMapHostMemory = 1;
  out.maxTexture1D = get(21), out.maxTexture1DMipmap = get(77);
  out.maxTexture2D[0] = get(22), out.maxTexture2D[1] = get(23);
  out.maxTexture2DMipmap[0] = get(73), out.maxTexture2DMipmap[1] = get(74);
  for (int i = 0; i < 3; i++) {
    out.maxTexture2DLinear[i] = get(70 + i);
    out.maxTexture3D[i] = get(24 + i), out.maxTexture3DAlt[i] = get(47 + i);
    out.maxTexture2DLayered[i] = get(27 + i), out.maxSurface3D[i] = get(58 + i), out.maxSurface2DLayered[i] = get(63 + i);
  }
  for (int i = 0; i < 2; i++) {
    out.maxTexture2DGather[i] = get(45 + i), out.maxTexture1DLayered[i] = get(42 + i), out.maxTextureCubemapLayered[i] = get(53 + i);
    out.maxSurface2D[i] = get(56 + i), out.maxSurface1DLayered[i] = get(61 + i), out.maxSurfaceCubemapLayered[i] = get(67 + i);
  }
  out.maxTextureCubemap = get(52), out.maxSurface1D = get(55), out.maxSurfaceCubemap = get(66);
  out.concurrentKernels = 1;
  out.ECCEnabled = get(32);
  out.pciBusID = get(kPciBusId);
  out.asyncEngineCount = get(40);
  out.unifiedAddressing = 1;
  out.memoryBusWidth = get(37);
  out.l2CacheSize = get(38), out.persistingL2CacheMaxSize = get(108), out.accessPolicyMaxWindowSize = get(109);
  out.maxThreadsPerMultiProcessor = get(39);
  out.streamPrioritiesSupported = out.globalL1CacheSupported = out.localL1CacheSupported = 1;
  out.sharedMemPerMultiprocessor = size_t(get(81));
  out.regsPerMultiprocessor = get(82);
  out.managedMemory = out.concurrentManagedAccess = out.computePreemptionSupported = out.canUseHostPointerForRegisteredMem = 1;
  out.cooperativeLaunch = 1;
  out.sharedMemPerBlockOptin = size_t(get(97));
  out.maxBlocksPerMultiProcessor = get(106);
  out.reservedSharedMemPerBlock = size_t(get(111));
  out.hostRegisterSupported = out.memoryPoolsSupported = 1;
  out.clusterLaunch = get(120);
}

}  // namespace

int device_attribute(const device::Device& device, int attribute) {
  for (const Row& row : kRows)
    if (row.attribute == attribute) return int(row.value(device));
  throw Failure(Status::invalid_value);
}

void fill_properties(abi::cudaDeviceProp13& out, const device::Device& device) {
  fill_common(out, device);
  out.deviceNumaId = -1;
}

void fill_properties(abi::cudaDeviceProp12& out, const device::Device& device) {
  fill_common(out, device);
  out.clockRate = device_attribute(device, 13);
  out.memoryClockRate = device_attribute(device, 36);
  out.deviceOverlap = 1;
  out.maxTexture1DLinear = device_attribute(device, 69);
  out.singleToDoublePrecisionPerfRatio = device_attribute(device, 87);
}

uint64_t* limit_of(Context& context, int limit) {
  device::Limits& limits = context.limits;
  uint64_t* const all[] = {&limits.stack, &limits.printf_fifo, &limits.heap, &limits.sync_depth, &limits.pending_launches, &limits.max_l2_fetch, &limits.persisting_l2};
  require(limit >= 0 && limit < int(std::size(all)), Status::unsupported_limit);
  return all[limit];
}

void set_limit(Context& context, int limit, uint64_t value) {
  uint64_t* place = limit_of(context, limit);
  require(limit != 2 || !context.heap || value == *place, Status::invalid_value);  // fixed once a kernel has used it
  *place = value;
}

void enable_peer(Context& context, int peer, unsigned flags) {
  require(flags == 0, Status::invalid_value);
  device::system().device(peer);
  require(peer != context.device().ordinal(), Status::peer_unsupported);
  require(context.peers.insert(peer).second, Status::peer_already_enabled);
}

}  // namespace orrery::api
