#include "runtime/execution/executor.h"

#include <gtest/gtest.h>

#include "backends/reference/reference_device.h"
#include "memory/arena_allocator.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/rank_threads.h"

namespace ridgepoint {
namespace {

// Counts the requests to another allocator.
class CountingAllocator : public Allocator {
 public:
  explicit CountingAllocator(Allocator& inner) : inner_(inner) {}
  void* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node, std::uint32_t index) override {
    ++requests;
    return inner_.allocate(bytes, category, node, index);
  }
  void free(void* address) override {
    ++requests;
    inner_.free(address);
  }
  bool can_skip_requests() const override { return inner_.can_skip_requests(); }
  MemoryUse use() const override { return inner_.use(); }
  CategoryBytes allocated_by_category() const override { return inner_.allocated_by_category(); }
  CategoryBytes peak_by_category() const override { return inner_.peak_by_category(); }
  void reset_peak() override { inner_.reset_peak(); }
  void set_trace(MemoryTrace* trace) override { inner_.set_trace(trace); }

  int requests = 0;

 private:
  Allocator& inner_;
};

class NoObserver : public LaunchObserver {
 public:
  void before_launch(std::uint32_t) override {}
  void after_launch(std::uint32_t) override {}
};

class ExecutorRequests : public ::testing::Test {
 protected:
  ExecutorRequests() {
    const Value x = input(graph_, "x", {DType::fp32, {8}}, Role::data);
    graph_.add_output("y", neg(graph_, exp(graph_, x)));
    plan_ = make_plan(graph_);
  }

  // The requests of one run.
  static int of(Executor& executor, CountingAllocator& allocator) {
    allocator.requests = 0;
    executor.run();
    return allocator.requests;
  }

  Graph graph_;
  ExecutionPlan plan_;
  std::shared_ptr<Device> device_ = make_reference_device();
};

TEST_F(ExecutorRequests, to_an_arena_are_made_once_and_again_only_when_somebody_watches) {
  const Kernels kernels = make_kernels(graph_, plan_, *device_);
  MemoryTrace trace(100);  // outlives the executor, which frees its last results
  ArenaAllocator arena(*device_, place_in_arena(lifetimes_of(plan_, workspace_bytes_of(kernels))));
  CountingAllocator allocator(arena);
  Executor executor(graph_, plan_, kernels, *device_, allocator);
  EXPECT_EQ(of(executor, allocator), 3) << "exp(x), y, and the release of exp(x)";
  for (int run = 0; run < 3; ++run) EXPECT_EQ(of(executor, allocator), 0);
  executor.count_next_run();
  EXPECT_EQ(of(executor, allocator), 4) << "and the release of the last y";
  EXPECT_EQ(of(executor, allocator), 0);
  NoObserver observer;
  executor.set_observer(&observer);
  EXPECT_EQ(of(executor, allocator), 4);
  executor.set_observer(nullptr);
  EXPECT_EQ(of(executor, allocator), 0);
  allocator.set_trace(&trace);
  EXPECT_EQ(of(executor, allocator), 4);
  EXPECT_EQ(trace.size(), 4u);
}

TEST_F(ExecutorRequests, to_a_caching_allocator_are_made_in_every_run) {
  const Kernels kernels = make_kernels(graph_, plan_, *device_);
  CachingAllocator caching(*device_);
  CountingAllocator allocator(caching);
  Executor executor(graph_, plan_, kernels, *device_, allocator);
  EXPECT_EQ(of(executor, allocator), 3);
  for (int run = 0; run < 3; ++run) EXPECT_EQ(of(executor, allocator), 4);
}

class BrokenObserver : public NoObserver {
 public:
  bool capture_begins() override { throw Error("the profiler broke"); }
};

TEST_F(ExecutorRequests, of_ranks_end_on_all_of_them_where_a_capture_fails_on_one) {
  testing::RankThreads ranks(2);
  std::array<std::string, 2> problems;
  ranks.run([&](std::size_t rank, const std::shared_ptr<Communicator>& communicator) {
    const CardDescription card{"H100 SXM", 90, 132, std::int64_t{80} << 30};
    const std::shared_ptr<Device> device = open_device("null", {.memory_limit_bytes = {}, .card = card});
    const Kernels kernels = make_kernels(graph_, plan_, *device, communicator.get());
    CachingAllocator allocator(*device);
    Executor executor(graph_, plan_, kernels, *device, allocator, true, {}, communicator.get());
    executor.run();
    BrokenObserver observer;
    if (rank == 0) executor.set_observer(&observer);
    try {
      executor.run();
    } catch (const Error& error) {
      problems[rank] = error.what();
    }
  });
  EXPECT_EQ(problems[0], "the profiler broke");
  EXPECT_EQ(problems[1], "another rank: the profiler broke");
}

}  // namespace
}  // namespace ridgepoint
