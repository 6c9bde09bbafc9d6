#include "backends/cuda/device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <set>
#include <string>

#include "backends/cuda/card_choices.h"
#include "backends/cuda/collectives/direct_memory.h"
#include "backends/cuda/collectives/nccl_communicator.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/cuda_graph.h"
#include "backends/cuda/driver/event.h"
#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/driver/stream_branch.h"
#include "backends/cuda/generator/kernel.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "backends/cuda/products/choice/cublaslt.h"
#include "backends/cuda/products/matmul.h"
#include "backends/cuda/profiling/observers.h"
#include "backends/cuda/transfer.h"
#include "ops/collectives.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::Event;
using cuda::StreamPoint;

class EventTimer : public DeviceTimer {
 public:
  EventTimer(const CudaContext& context, std::size_t points) {
    for (std::size_t i = 0; i < points; ++i) events_.emplace_back(context);
  }
  void mark(std::size_t point) override { events_[point].record(); }
  double elapsed_ms(std::size_t from, std::size_t to) override { return events_[to].ms_since(events_[from]); }

 private:
  std::deque<Event> events_;  // an event cannot move
};

// On a stream of their own. Runs are captured in relaxed mode, so copies go on meanwhile. A copy to the host is made in
// pieces, one at a time: the read of a loss, which the same engine makes, then waits for the piece that is on its way,
// 0.3 ms, and not for the whole. With a second piece in the queue the engine never comes to another stream: on an H100
// the read waited until all pieces had come.
class EngineCopies : public DeviceCopies {
 public:
  explicit EngineCopies(CudaContext& context)
      : context_(context), stream_(context.side_stream(CudaContext::SideStream::checkpoints)), end_(context) {}
  void copy_on_device(void* to, const void* from, std::size_t bytes) override { context_.copy(to, from, bytes); }
  void copy_to_host(void* host, const void* device_address, std::size_t bytes) override {
    constexpr std::size_t kPieceBytes = std::size_t{16} << 20;
    constexpr std::chrono::microseconds kPause(50);  // a sixth of the time of a piece
    const CudaContext::Scope scope(context_);
    for (std::size_t begin = 0; begin < bytes; begin += kPieceBytes) {
      const auto* from = static_cast<const std::byte*>(device_address) + begin;
      cuda::check(context_.driver().cuMemcpyDtoHAsync_v2(static_cast<std::byte*>(host) + begin,
                                                         reinterpret_cast<cuda::CUdeviceptr>(from),
                                                         std::min(kPieceBytes, bytes - begin), stream_),
                  "copy from the GPU");
      end_.record(stream_);
      end_.wait(kPause);
    }
  }

 private:
  CudaContext& context_;
  cuda::CUstream stream_;
  StreamPoint end_;  // of the piece on its way
};

class CudaDevice : public Device {
 public:
  CudaDevice(CudaContext& context, const DeviceOptions& options)
      : context_(context),
        choices_(context.card()),
        total_memory_bytes_(
            std::min(context.card().memory_bytes, options.memory_limit_bytes.value_or(context.card().memory_bytes))) {}

  std::string_view kind() const override { return "cuda"; }
  std::string name() const override { return context_.card().name; }
  std::size_t total_memory_bytes() const override { return total_memory_bytes_; }
  std::optional<std::size_t> free_memory_bytes() const override { return context_.memory_info().free_bytes; }
  DeviceFacts facts() const override;

  void* allocate_memory(std::size_t bytes) override {
    return allocate(bytes, [this](std::size_t size) { return context_.allocate(size); });
  }
  void* allocate_arena(std::size_t bytes) override {
    if (!is_reached_) return allocate_memory(bytes);
    void* address = allocate(bytes, [this](std::size_t size) { return cuda::allocate_reachable(context_, size); });
    const std::lock_guard lock(reachable_mutex_);
    if (address != nullptr) reachable_.insert(address);
    return address;
  }
  void release_memory(void* address, std::size_t bytes) override {
    if (take_reachable(address)) {
      cuda::release_reachable(context_, address);
    } else {
      context_.release(address);
    }
    held_bytes_ -= bytes;
  }

  void copy_to_device(void* device_address, const void* host, std::size_t bytes) override {
    if (bytes == 0) return;
    const CudaContext::Scope scope(context_);
    cuda::check(context_.driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<cuda::CUdeviceptr>(device_address), host, bytes,
                                                       context_.stream()),
                "copy to the GPU");
    context_.synchronize();
  }
  void copy_to_host(void* host, const void* device_address, std::size_t bytes) override {
    if (bytes == 0) return;
    const CudaContext::Scope scope(context_);
    cuda::check(context_.driver().cuMemcpyDtoHAsync_v2(host, reinterpret_cast<cuda::CUdeviceptr>(device_address), bytes,
                                                       context_.stream()),
                "copy from the GPU");
    context_.synchronize();
  }
  std::shared_ptr<void> lock_pages(std::span<std::byte> host) override {
    if (host.empty()) return nullptr;
    const CudaContext::Scope scope(context_);
    if (context_.driver().cuMemHostRegister_v2(host.data(), host.size(), 0) != cuda::CUDA_SUCCESS) return nullptr;
    return {static_cast<void*>(host.data()), [this](void* memory) {
              if (context_.has_failed()) return;  // it would wait for work that may never end
              const CudaContext::Scope within(context_, std::nothrow);
              context_.driver().cuMemHostUnregister(memory);
            }};
  }
  std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override {
    std::shared_ptr<std::byte> memory = Device::allocate_host(bytes);
    if (memory == nullptr) return nullptr;
    std::shared_ptr<void> locked = lock_pages({memory.get(), bytes});
    if (locked == nullptr) return nullptr;
    std::byte* const address = memory.get();
    return {address, [memory = std::move(memory), locked = std::move(locked)](std::byte*) mutable {
              locked.reset();  // before the memory
              memory.reset();
            }};
  }
  std::unique_ptr<DeviceCopies> make_copies() override { return std::make_unique<EngineCopies>(context_); }
  void fill_zero(void* device_address, std::size_t bytes) override { context_.fill_zero(device_address, bytes); }
  void fill_random(void* device_address, DType dtype, std::int64_t count, const TruncatedNormal& distribution,
                   std::uint64_t stream, const StopPoint& /*stop_point*/) override {
    if (count == 0) return;
    constexpr int kThreads = 256;
    constexpr std::int64_t kMostBlocks = 1 << 16;
    const std::string entry = "fill_random_" + std::string(ridgepoint::name(dtype));
    const cuda::LaunchShape shape{.grid_x = static_cast<unsigned>(std::min(ceil_divide(count, kThreads), kMostBlocks)),
                                  .block_x = kThreads};
    double mean = distribution.mean;
    double deviation = distribution.deviation;
    void* arguments[] = {&device_address, &count, &mean, &deviation, &stream};
    context_.launch(context_.kernel("random", entry.c_str()), shape, arguments, entry.c_str());
  }
  void synchronize() override { context_.synchronize(); }
  void while_current(const std::function<void()>& body) override {
    const CudaContext::Scope scope(context_);
    body();
  }

  bool has_kernel(const Graph& graph, const Node& node) const override { return choices_.has_kernel(graph, node); }
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override {
    return choices_.operand_layout(graph, node, index);
  }
  bool writes_strided(const Graph& graph, const Node& node) const override {
    return choices_.writes_strided(graph, node);
  }
  bool pads_rows(const Graph& graph, const Node& node) const override { return choices_.pads_rows(graph, node); }
  bool runs_update_beside(const Graph& graph, const Node& node) const override {
    return choices_.runs_update_beside(graph, node);
  }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override;
  KernelOutline outline(const KernelSpec& spec) override { return choices_.outline(spec); }
  std::shared_ptr<Communicator> make_communicator(const std::shared_ptr<ProcessGroup>& group) override {
    std::shared_ptr<Communicator> communicator = cuda::make_nccl_communicator(context_, group);
    is_reached_ = communicator->reaches_memory();
    return communicator;
  }
  std::unique_ptr<CapturedLaunches> capture(const std::function<void()>& body) override {
    return std::make_unique<cuda::CudaGraph>(context_, body);
  }
  std::unique_ptr<DeviceTimer> make_timer(std::size_t points) override {
    return std::make_unique<EventTimer>(context_, points);
  }
  std::unique_ptr<ActivityRecorder> make_activity_recorder() override { return cuda::make_cupti_recorder(context_); }
  std::unique_ptr<LaunchObserver> make_range_marker(const Graph& graph, std::span<const NodeId> launches) override {
    return cuda::make_nvtx_ranges(graph, launches);
  }

 private:
  // Null where the limit or the GPU's memory does not allow it.
  template <typename Allocate>
  void* allocate(std::size_t bytes, const Allocate& allocate_on_card) {
    if (!take(bytes)) return nullptr;
    try {
      if (void* address = allocate_on_card(std::max<std::size_t>(bytes, 1))) return address;
    } catch (...) {
      held_bytes_ -= bytes;
      throw;
    }
    held_bytes_ -= bytes;
    return nullptr;
  }
  bool take_reachable(void* address) {
    const std::lock_guard lock(reachable_mutex_);
    return reachable_.erase(address) > 0;
  }

  // Counts `bytes` as held if the limit allows it.
  bool take(std::size_t bytes) {
    std::size_t held = held_bytes_;
    do {
      if (bytes > total_memory_bytes_ - held) return false;
    } while (!held_bytes_.compare_exchange_weak(held, held + bytes));
    return true;
  }

  CudaContext& context_;
  cuda::CardChoices choices_;
  std::size_t total_memory_bytes_;
  std::atomic<std::size_t> held_bytes_{0};
  std::atomic<bool> is_reached_{false};  // its arenas, by the other ranks of a communicator
  std::mutex reachable_mutex_;
  std::set<void*> reachable_;
};

DeviceFacts CudaDevice::facts() const {
  DeviceFacts facts = choices_.facts();
  facts.used_at_start_bytes = static_cast<std::int64_t>(context_.used_at_start_bytes());
  facts.pci_bus_id = context_.card().pci_bus_id;
  return facts;
}

std::unique_ptr<Kernel> CudaDevice::make_kernel(const KernelSpec& spec) {
  const CudaContext::Scope scope(context_);
  if (op_class(spec.node.op) == OpClass::transfer) return cuda::make_transfer(context_, spec);
  if (runs_beside(spec.node) && runs_update_beside(spec.graph, spec.node))
    return cuda::make_kernel_beside(context_, cuda::make_hand_written_kernel(context_, spec));
  if (cuda::is_library_product(context_.card(), spec.graph, spec.node)) return cuda::make_matmul_kernel(context_, spec);
  if (cuda::has_hand_written(context_.card(), spec.graph, spec.node))
    return cuda::make_hand_written_kernel(context_, spec);
  return cuda::make_generated_kernel(context_, spec);
}

}  // namespace

std::shared_ptr<Device> make_cuda_device(int ordinal, const DeviceOptions& options) {
  cuda::require_kernels();
  return std::make_shared<CudaDevice>(CudaContext::of_card(ordinal), options);
}

int cuda_card_count() {
  try {
    cuda::require_kernels();
    int count = 0;
    cuda::check(cuda::driver().cuDeviceGetCount(&count), "count the GPUs");
    return count;
  } catch (const Error&) {
    return 0;
  }
}

bool has_usable_cuda_card() {
  try {
    cuda::require_kernels();
    cuda::require_supported(cuda::card_facts(0));
    cuda::cublaslt();
    cuda::nvrtc();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ridgepoint
