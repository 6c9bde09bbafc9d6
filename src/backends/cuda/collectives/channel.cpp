#include "backends/cuda/collectives/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/text/throw_error.h"
#include "core/threads/deadline.h"
#include "core/warning.h"

namespace ridgepoint::cuda {
namespace {

// mpirun shows what a rank has printed a moment later, and nothing of it once a rank has ended.
constexpr std::chrono::milliseconds kTimeToShow{500};
// NCCL itself takes 1 s and more, whatever limit collectives have.
constexpr std::chrono::duration<double> kLeastTimeToJoin{10};

// A plan is made for one card: on others the ranks would make different graphs, whose collectives wait for ever.
void require_same_card(const CardFacts& card, ProcessGroup& group) {
  const std::vector<std::string> names = group.all_gather(card.name, "names of cards");
  const auto other = std::ranges::find_if(names, [&](const std::string& name) { return name != names.front(); });
  if (other == names.end()) return;
  throw_error(ErrorKind::usage,
              "the ranks have different cards: rank 0 has {}, rank {} has {}; choose cards of one kind with "
              "CUDA_VISIBLE_DEVICES, or run on machines of one kind",
              names.front(), other - names.begin(), *other);
}

// NCCL finds the other ranks over the network, for which it may choose one that does not reach them.
std::string describe_slow_start(std::chrono::duration<double> limit) {
  return fmt::format(
      "NCCL has not joined the ranks within {:g} s: one of them hangs, or NCCL uses a network that does "
      "not reach them; NCCL_DEBUG=INFO shows which, and NCCL_SOCKET_IFNAME chooses another",
      limit.count());
}

}  // namespace

Channel& Channel::of_card(CudaContext& context, const std::shared_ptr<ProcessGroup>& group) {
  struct OfCard {
    std::mutex mutex;
    std::unique_ptr<Channel> channel;
  };
  static std::mutex mutex;
  static std::map<int, OfCard>& channels = *new std::map<int, OfCard>();
  OfCard* mine = nullptr;
  {
    const std::lock_guard lock(mutex);
    mine = &channels[context.card().ordinal];
  }
  // Not under the lock of all: to join takes the other ranks, which may be threads of this process with other cards.
  const std::lock_guard lock(mine->mutex);
  if (mine->channel == nullptr) mine->channel = std::unique_ptr<Channel>(new Channel(context, group));
  return *mine->channel;
}

Channel::Channel(CudaContext& context, const std::shared_ptr<ProcessGroup>& group)
    : context_(context), rank_(group->rank()), ranks_(group->ranks()) {
  require_same_card(context.card(), *group);
  const CudaContext::Scope scope(context);
  const NcclId id = prepare(*group);
  const std::chrono::duration<double> limit(group->collective_limit_seconds());
  const auto leave = [weak = std::weak_ptr(group)](const std::string& message) {
    const std::shared_ptr<ProcessGroup> ranks = weak.lock();
    if (ranks == nullptr) return;  // they are leaving
    warn_once("hang", message);
    std::this_thread::sleep_for(kTimeToShow);
    ranks->abort(1);
  };
  {
    const std::chrono::duration<double> joins = std::max(limit, kLeastTimeToJoin);
    const Deadline joined(joins, [&] { leave(describe_slow_start(joins)); });
    check(nccl().ncclCommInitRank(&handle_, group->ranks(), id, group->rank()), "join the ranks");
  }
  watch_.emplace(context, handle_, limit, leave);
  eager_launches_.emplace(context, stream_, marks_, *watch_);
  direct_memory_ = DirectMemory::between(*group, context, handle_, stream_, *watch_);
}

// Loads NCCL and makes the streams, on all ranks or on none. Returns the id that rank 0 has made.
NcclId Channel::prepare(ProcessGroup& group) {
  NcclId id{};
  std::exception_ptr failure;
  std::string problem;
  try {
    nccl();
    if (group.rank() == 0) check(nccl().ncclGetUniqueId(&id), "make an id");
    make_streams();
  } catch (const Error& error) {
    failure = std::current_exception();
    problem = error.what();
  }
  problem = ridgepoint::problem_of_ranks(&group, problem, "whether NCCL is ready");
  if (failure) std::rethrow_exception(failure);
  if (!problem.empty()) throw Error("another rank: " + problem, ErrorKind::unsupported);
  const std::string first = group.all_gather(std::string_view(id.bytes, sizeof id.bytes), "the id of NCCL").front();
  std::memcpy(id.bytes, first.data(), sizeof id.bytes);
  return id;
}

void Channel::make_streams() {
  int least = 0;
  int greatest = 0;
  check(context_.driver().cuCtxGetStreamPriorityRange(&least, &greatest), "read the priorities of streams");
  // A collective that waits for a free multiprocessor holds up all ranks.
  for (CUstream* stream : {&stream_, &marks_})
    check(context_.driver().cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, greatest), "create a stream");
}

}  // namespace ridgepoint::cuda
