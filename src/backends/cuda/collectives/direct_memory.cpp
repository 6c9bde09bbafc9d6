#include "backends/cuda/collectives/direct_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ridgepoint/core/error.h"

namespace ridgepoint::cuda {
namespace {

// Another rank may still reach memory that this one has released: it is free a moment later.
constexpr std::chrono::milliseconds kTimeToRelease{1000};
constexpr std::chrono::milliseconds kPause{20};

// What NCCL says of a call that failed; empty for one that did not.
std::string problem_of(NcclStatus status, std::string_view doing) {
  try {
    check(status, doing);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// A captured run repeats NCCL's copies, and each waits for words by which NCCL counts them. How it counts is known of
// 2.28 alone (gather_for_the_first_time), and a wrong count would wait for ever.
bool counts_copies_as_known() {
  int version = 0;
  return nccl().ncclGetVersion(&version) == NcclStatus::success && version / 100 == 228;
}

bool no_rank_has(ProcessGroup& group, const std::string& problem, std::string_view what) {
  return problem_of_ranks(&group, problem, what).empty();
}

}  // namespace

void* allocate_reachable(const CudaContext& context, std::size_t bytes) {
  const CudaContext::Scope scope(context);
  const auto end = std::chrono::steady_clock::now() + kTimeToRelease;
  for (;;) {
    void* address = nullptr;
    if (nccl().ncclMemAlloc(&address, bytes) == NcclStatus::success) return address;
    context.memory_info();  // throws where something else is wrong
    if (std::chrono::steady_clock::now() > end) return nullptr;
    std::this_thread::sleep_for(kPause);
  }
}

void release_reachable(const CudaContext& context, void* address) noexcept {
  if (context.has_failed()) return;
  const CudaContext::Scope scope(context, std::nothrow);
  nccl().ncclMemFree(address);
}

class DirectMemory::Share : public SharedMemory {
 public:
  Share(DirectMemory& memory, const std::byte* address) : memory_(memory), address_(address) {}
  ~Share() override {
    const auto found = memory_.ranges_.find(address_);
    memory_.close(found->second.window);
    memory_.ranges_.erase(found);
  }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

 private:
  DirectMemory& memory_;
  const std::byte* address_;
};

std::unique_ptr<SharedMemory> DirectMemory::share(ProcessGroup& group, const FixedMemory& memory) {
  const std::string mine = fmt::format("{} {:x}", memory.bytes, memory.layout);
  const std::vector<std::string> all = group.all_gather(mine, "the layout of memory");
  if (std::ranges::count(all, mine) != std::ssize(all)) return nullptr;
  const CudaContext::Scope scope(context_);
  NcclWindow window = nullptr;
  if (!open(group, memory.address, memory.bytes, window)) {
    close(window);
    return nullptr;
  }
  const auto* address = static_cast<const std::byte*>(memory.address);
  ranges_[address] = {memory.bytes, window};
  return std::make_unique<Share>(*this, address);
}

std::unique_ptr<DirectMemory> DirectMemory::between(ProcessGroup& group, CudaContext& context, NcclHandle handle,
                                                    CUstream stream, CollectiveWatch& watch) {
  if (nccl().ncclAlltoAll == nullptr || !counts_copies_as_known() || group.ranks_on_host() != group.ranks())
    return nullptr;
  std::unique_ptr<DirectMemory> made(new DirectMemory(context, handle, stream));
  if (made->prepare(group, watch)) return made;
  made->release_staging();
  return nullptr;
}

// What one of the ranks cannot do ends it on all of them, because each step needs all ranks.
bool DirectMemory::prepare(ProcessGroup& group, CollectiveWatch& watch) {
  staging_ = allocate_reachable(context_, kStagingBytes);
  if (!no_rank_has(group, staging_ == nullptr ? "no memory" : "", "memory for what ranks send")) return false;
  NcclConfig config;
  config.cta_policy = kNcclNoCtas;
  const NcclStatus divided = nccl().ncclCommSplit(handle_, 0, group.rank(), &copying_, &config);
  if (!no_rank_has(group, problem_of(divided, "join the ranks again"), "whether NCCL is ready to copy")) return false;
  watch.watch(copying_);
  if (!open(group, staging_, kStagingBytes, staging_window_)) return false;
  const CollectiveWatch::Number number = watch.add("a first copy between the cards");
  watch.mark_begin(number, stream_);
  const std::string problem = gather_for_the_first_time(group.rank());
  watch.mark_end(number, stream_);
  return no_rank_has(group, problem, "whether NCCL copies");
}

void DirectMemory::release_staging() noexcept {
  close(staging_window_);
  if (staging_ != nullptr) release_reachable(context_, staging_);
}

// The first gather prepares NCCL's copies, which cannot happen in a capture. They wait for words that count them, and
// those of a captured run for the word 1, so a second one makes sure that no word is 1 when a run is captured.
std::string DirectMemory::gather_for_the_first_time(int rank) {
  std::string problem;
  for (int i = 0; i < 2 && problem.empty(); ++i) {
    const NcclStatus gathered = nccl().ncclAllGather(staging() + rank, staging(), 1, NcclType::int8, copying_, stream_);
    problem = problem_of(gathered, "gather");
  }
  return problem;
}

bool DirectMemory::open(ProcessGroup& group, void* address, std::size_t bytes, NcclWindow& window) {
  std::string problem = problem_of(
      nccl().ncclCommWindowRegister(copying_, address, bytes, &window, kNcclSymmetricWindow), "share memory");
  // NCCL describes memory that other cards reach in memory of the GPU, and other memory on the host.
  CUmemorytype type{};
  const CUresult result = context_.driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                                  reinterpret_cast<CUdeviceptr>(window));
  const bool is_reached = result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE;
  if (problem.empty() && !is_reached) problem = "the cards do not reach each other's memory";
  return no_rank_has(group, problem, "whether memory is shared");
}

void DirectMemory::close(NcclWindow window) noexcept {
  if (window == nullptr || context_.has_failed()) return;
  const CudaContext::Scope scope(context_, std::nothrow);
  nccl().ncclCommWindowDeregister(copying_, window);
}

bool DirectMemory::holds(const void* address, std::size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(address);
  const auto after = ranges_.upper_bound(begin);
  if (after == ranges_.begin()) return false;
  const auto& [base, range] = *std::prev(after);
  return begin + bytes <= base + range.bytes;
}

}  // namespace ridgepoint::cuda
