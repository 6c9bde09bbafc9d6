#include "backends/mpi/communication_thread.h"

#include <utility>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/tensor.h"
#include "runtime/device/host_device.h"

namespace ridgepoint {
namespace {

using Clock = std::chrono::steady_clock;

// Short collectives end within this time; longer ones leave the core to the thread that computes.
constexpr auto kPolls = std::chrono::microseconds(50);
constexpr auto kSleep = std::chrono::microseconds(50);

// Sums of 16-bit floating types, as MPI calls them: sum[i] += operand[i], rounded to nearest even.
// The sum of two values of a 16-bit type is exact in double, so that it is rounded once.
void add_low(DType dtype, const void* operand, void* sum, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(operand);
  auto* to = static_cast<std::byte*>(sum);
  for (std::size_t i = 0; i < 2 * count; i += 2)
    store_element(dtype, to + i, load_element(dtype, to + i) + load_element(dtype, from + i));
}

void add_bf16(const void* operand, void* sum, std::size_t count) { add_low(DType::bf16, operand, sum, count); }
void add_fp16(const void* operand, void* sum, std::size_t count) { add_low(DType::fp16, operand, sum, count); }

}  // namespace

CommunicationThread::CommunicationThread(MpiLibrary& library, std::chrono::duration<double> limit)
    : library_(library), limit_(limit), thread_([this] { run(); }) {
  wait(start([this](MpiLibrary& mpi) { place_ = mpi.initialise(add_bf16, add_fp16); }, "the initialisation of MPI"));
}

CommunicationThread::~CommunicationThread() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (failure_.empty()) {
    thread_.join();
  } else {
    thread_.detach();  // it waits for a rank that does not answer
  }
}

CommunicationThread::Ticket CommunicationThread::start(std::function<void(MpiLibrary&)> begin, std::string name,
                                                       Purpose purpose, TimeLimit limit) {
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(begin), std::move(name), purpose, limit});
    ticket = ++started_;
  }
  changed_.notify_all();
  return ticket;
}

void CommunicationThread::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ >= ticket || !failure_.empty(); });
  if (!failure_.empty()) throw Error(failure_);
}

void CommunicationThread::note() {
  const std::lock_guard lock(mutex_);
  spans_.clear();
  notes_ = true;
}

std::vector<CollectiveSpan> CommunicationThread::take() {
  const std::lock_guard lock(mutex_);
  notes_ = false;
  return std::exchange(spans_, {});
}

void CommunicationThread::abandon() {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = "the run of all ranks was given up";
}

void CommunicationThread::run() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stops_ || !jobs_.empty(); });
      if (jobs_.empty()) break;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    run(job);
  }
  library_.finalise();
}

void CommunicationThread::run(const Job& job) {
  const Clock::time_point begin = Clock::now();
  const std::int64_t begin_ns = steady_now_ns();
  job.begin(library_);
  while (!library_.test()) {
    const auto elapsed = Clock::now() - begin;
    if (elapsed < kPolls) continue;
    std::this_thread::sleep_for(kSleep);
    if (elapsed < limit_ || job.limit == TimeLimit::none) continue;
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) {
      failure_ = describe_hang(job.name, limit_.count());
      changed_.notify_all();
    }
  }
  const std::lock_guard lock(mutex_);
  if (notes_ && job.purpose == Purpose::collective) spans_.push_back({begin_ns, steady_now_ns()});
  ++ended_;
  changed_.notify_all();
}

}  // namespace ridgepoint
