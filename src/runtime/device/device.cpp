#include "runtime/device/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "core/random/random_values.h"
#include "core/rounding.h"
#include "core/threads/parallel.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/tensor.h"
#include "runtime/device/host_device.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 18;

}  // namespace

std::shared_ptr<Communicator> Device::make_communicator(const std::shared_ptr<ProcessGroup>& /*group*/) {
  throw Error("device " + std::string(kind()) + " runs on one rank only", ErrorKind::unsupported);
}

KernelOutline Device::outline(const KernelSpec& spec) {
  const std::unique_ptr<Kernel> kernel = make_kernel(spec);
  return {.name = std::string(kernel->name()), .workspace_bytes = kernel->workspace_bytes()};
}

std::shared_ptr<std::byte> Device::allocate_host(std::size_t bytes) {
  constexpr std::size_t kPageBytes = 4096;
  constexpr std::int64_t kGrainBytes = std::int64_t{1} << 24;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, round_up(bytes, kPageBytes)));
  if (memory == nullptr) return nullptr;
  parallel_for(static_cast<std::int64_t>(bytes), kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memset(memory + begin, 0, static_cast<std::size_t>(end - begin));
  });
  return {memory, [](std::byte* address) { std::free(address); }};
}

void Device::fill_random(void* device_address, DType dtype, std::int64_t count, const TruncatedNormal& distribution,
                         std::uint64_t stream, const StopPoint& stop_point) {
  constexpr std::int64_t kMostElements = 1 << 22;
  HostTensor values({DType::fp32, {std::min(count, kMostElements)}});
  HostTensor cast({dtype, {dtype == DType::fp32 ? 0 : values.type.shape[0]}});
  auto* address = static_cast<std::byte*>(device_address);
  for (std::int64_t first = 0; first < count; first += kMostElements) {
    const std::int64_t length = std::min(kMostElements, count - first);
    values.type.shape = {length};
    values.data.resize(values.type.bytes());
    ridgepoint::fill_random(values.as<float>(), distribution, stream, first, stop_point);
    if (dtype != DType::fp32) {
      cast.type.shape = {length};
      cast.data.resize(cast.type.bytes());
      convert_to_stored(values, cast);
    }
    const HostTensor& written = dtype == DType::fp32 ? values : cast;
    copy_to_device(address, written.data.data(), written.data.size());
    if (address != nullptr) address += written.data.size();
  }
}

std::unique_ptr<ActivityRecorder> Device::make_activity_recorder() { return std::make_unique<HostActivityRecorder>(); }

std::unique_ptr<LaunchObserver> Device::make_range_marker(const Graph&, std::span<const NodeId>) { return nullptr; }

std::vector<std::byte> random_pattern(DType dtype, std::size_t bytes) {
  const std::size_t element_bytes = size_bytes(dtype);
  std::vector<std::byte> pattern(std::min(bytes, kMostElements * element_bytes));
  std::minstd_rand random(1);
  std::uniform_real_distribution<double> numbers(-1.0, 1.0);
  for (std::size_t i = 0; i < pattern.size(); i += element_bytes)
    store_element(dtype, pattern.data() + i, numbers(random));
  return pattern;
}

}  // namespace ridgepoint
