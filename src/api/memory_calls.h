// api/memory_calls.h: memory operations that both APIs offer under different names.
#pragma once
#include "api/entry.h"

namespace orrery::api {

/// All throw Failure. A size of zero gives a null address where CUDA does.
void* allocate_device(Context& context, size_t bytes);
void* allocate_pitched(Context& context, size_t* pitch, size_t width, size_t rows);
void* allocate_host(Context& context, size_t bytes, unsigned flags);
void* allocate_managed(Context& context, size_t bytes, unsigned flags);
void free_device(Context& context, void* address);
void free_host(Context& context, void* address);
void register_host(void* address, size_t bytes, unsigned flags);
void unregister_host(void* address);
unsigned host_flags(void* address);
void* device_pointer_of_host(void* address);
/// Waits until nothing that was submitted can still use memory, as freeing does.
void wait_for_use(Context& context);
/// The same for all contexts of the process: where memory belongs to none, any of them may use it.
void wait_for_use_by_all();

void* allocate_async(Context& context, const std::shared_ptr<device::Stream>& stream, const std::shared_ptr<device::MemoryPool>& pool, size_t bytes);
void free_async(Context& context, const std::shared_ptr<device::Stream>& stream, void* address);
std::shared_ptr<device::MemoryPool> make_pool(const abi::cudaMemPoolProps& props);
device::MemoryPool* default_pool_handle(device::Device& device);
device::MemoryPool* current_pool_handle(device::Device& device);
void set_pool_attribute(device::MemoryPool& pool, int attribute, const void* value);
void get_pool_attribute(device::MemoryPool& pool, int attribute, void* value);

struct RangeFacts {
  bool read_mostly = false;
  int preferred_type = 0, preferred_id = -2, prefetch_type = 0, prefetch_id = -2;
  std::vector<int> accessed_by;
};
/// Advice and prefetches are remembered for queries; they change nothing.
void advise(uint64_t address, size_t bytes, int advice, abi::cudaMemLocation location);
void note_prefetch(uint64_t address, size_t bytes, abi::cudaMemLocation location);
void get_range_attribute(void* data, size_t bytes, int attribute, uint64_t address);

/// The array behind a handle. Throws Failure(invalid_handle).
std::shared_ptr<device::Array> array_of(const void* handle);
device::CopySide array_side(const std::shared_ptr<device::Array>& array, size_t x_bytes, size_t y, size_t z);
device::Format format_of(const abi::cudaChannelFormatDesc& desc);
abi::cudaChannelFormatDesc channel_of(const device::Format& format);

}  // namespace orrery::api
