// What is changed in a captured run: small fills become kernels, and copies that nobody reads and marks that touch are
// left out.
#include "backends/cuda/driver/graph_edits.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/card.h"
#include "backends/cuda/driver/cuda_graph.h"
#include "backends/cuda/driver/event.h"
#include "backends/cuda/fake/fake_card.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/kernels/fill/parameters.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::CudaGraph;

cuda::CUdeviceptr address(std::byte* memory) { return reinterpret_cast<cuda::CUdeviceptr>(memory); }

struct GraphEditsOnFakeCard : testing::OnFakeCard {
  static inline std::vector<std::string> work;

  // The names of the work of one run of the captured body.
  template <typename Body>
  static std::vector<std::string> run(CudaContext& context, const Body& body) {
    CudaGraph graph(context, body);
    watch_card([](const FakeWork& done) { work.emplace_back(done.name); });
    graph.run();
    watch_card(nullptr);
    return std::exchange(work, {});
  }
};

TEST_F(GraphEditsOnFakeCard, small_fills_of_the_card_become_kernels) {
  on_fake_card([] {
    CudaContext& context = CudaContext::of_card(0);
    auto* const memory = static_cast<std::byte*>(context.allocate(1 << 20));
    std::uint32_t of_host = 0;
    std::vector<std::pair<cuda::CUgraphNode, cuda::CUgraphNode>> replaced;
    context.graph_edits().set_listener(
        [&](cuda::CUgraphNode node, cuda::CUgraphNode by) { replaced.emplace_back(node, by); });
    EXPECT_THAT(run(context,
                    [&] {
                      context.fill_zero(memory, 4097);
                      context.fill_zero(memory, 4096);
                      cuda::check(context.driver().cuMemsetD32Async(reinterpret_cast<cuda::CUdeviceptr>(&of_host), 7, 1,
                                                                    context.stream()),
                                  "fill");
                      context.fill_zero(memory, 4);
                    }),
                ElementsAre("fill", "fill_bytes", "fill", "fill_bytes"));
    EXPECT_EQ(replaced.size(), 2U);
    EXPECT_EQ(of_host, 7U);
  });
}

TEST_F(GraphEditsOnFakeCard, unread_copies_are_left_out_of_one_capture) {
  on_fake_card([] {
    CudaContext& context = CudaContext::of_card(0);
    auto* const memory = static_cast<std::byte*>(context.allocate(1 << 20));
    const auto copies = [&] {
      context.copy(memory + 64, memory, 16);
      context.copy(memory + 128, memory, 16);
      context.fill_zero(memory, 8192);
    };
    EXPECT_THAT(run(context,
                    [&] {
                      copies();
                      context.graph_edits().leave_out_copy(memory, memory + 128);
                    }),
                ElementsAre("copy", "fill"));
    EXPECT_THAT(run(context, copies), ElementsAre("copy", "copy", "fill"));
  });
}

TEST_F(GraphEditsOnFakeCard, marks_of_the_host_that_touch_are_left_out) {
  on_fake_card([] {
    CudaContext& context = CudaContext::of_card(0);
    auto* const memory = static_cast<std::byte*>(context.allocate(1 << 20));
    std::uint32_t word = 0;
    const auto mark = [&](std::uint32_t value) {
      cuda::check(
          context.driver().cuMemsetD32Async(reinterpret_cast<cuda::CUdeviceptr>(&word), value, 1, context.stream()),
          "mark");
    };
    const auto collective = [&](std::uint32_t begin) {
      mark(begin);
      context.copy(memory + 64, memory, 16);
      mark(begin + 1);
    };
    EXPECT_THAT(run(context,
                    [&] {
                      collective(1);
                      collective(3);
                      collective(5);
                      context.fill_zero(memory, 8192);
                      collective(7);
                    }),
                ElementsAre("fill", "copy", "copy", "copy", "fill", "fill", "fill", "copy", "fill"));
    EXPECT_EQ(word, 8U);
  });
}

using OnCardGraphEdits = testing::OnCard;

// What lies beside a fill keeps its values.
TEST_F(OnCardGraphEdits, fills_write_what_the_driver_would) {
  CudaContext& context = CudaContext::of_card(0);
  constexpr std::size_t kBytes = 8192;
  auto* const memory = static_cast<std::byte*>(device_->allocate_memory(2 * kBytes));
  device_->fill_zero(memory, 2 * kBytes);
  const auto fill = [&](std::byte* to) {
    const cuda::Driver& driver = context.driver();
    cuda::check(driver.cuMemsetD8Async(address(to + 1), 0xA5, 3, context.stream()), "fill");
    cuda::check(driver.cuMemsetD32Async(address(to + 8), 0x01020304, 500, context.stream()), "fill");
    cuda::check(driver.cuMemsetD8Async(address(to + 2048), 0x5A, 4096, context.stream()), "fill");
    cuda::check(driver.cuMemsetD32Async(address(to + 6144), 0xFEDCBA98, 1, context.stream()), "fill");
  };
  fill(memory);
  std::size_t replaced = 0;
  context.graph_edits().set_listener([&](cuda::CUgraphNode, cuda::CUgraphNode) { ++replaced; });
  CudaGraph graph(context, [&] { fill(memory + kBytes); });
  context.graph_edits().set_listener({});
  EXPECT_EQ(replaced, 4U);
  for (int run = 0; run < 2; ++run) graph.run();
  std::vector<std::byte> found(2 * kBytes);
  device_->copy_to_host(found.data(), memory, found.size());
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + kBytes, found.begin() + kBytes));
  device_->release_memory(memory, 2 * kBytes);
}

// The chain goes on where a copy is left out: what stood behind it runs after what stood before it.
TEST_F(OnCardGraphEdits, a_copy_that_is_left_out_writes_nothing_and_keeps_the_order) {
  CudaContext& context = CudaContext::of_card(0);
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  auto* const memory = static_cast<std::byte*>(device_->allocate_memory(3 * kBytes));
  device_->fill_zero(memory, 3 * kBytes);
  CudaGraph graph(context, [&] {
    cuda::check(context.driver().cuMemsetD8Async(address(memory), 1, kBytes, context.stream()), "fill");
    context.copy(memory + kBytes, memory, kBytes);
    context.copy(memory + 2 * kBytes, memory, kBytes);
    context.graph_edits().leave_out_copy(memory, memory + kBytes);
  });
  graph.run();
  std::vector<std::byte> found(3 * kBytes);
  device_->copy_to_host(found.data(), memory, found.size());
  const auto count = [&](std::size_t part, int value) {
    return std::count(found.begin() + static_cast<std::ptrdiff_t>(part * kBytes),
                      found.begin() + static_cast<std::ptrdiff_t>((part + 1) * kBytes), std::byte(value));
  };
  EXPECT_EQ(count(0, 1), std::ptrdiff_t{kBytes});
  EXPECT_EQ(count(1, 0), std::ptrdiff_t{kBytes});
  EXPECT_EQ(count(2, 1), std::ptrdiff_t{kBytes});
  device_->release_memory(memory, 3 * kBytes);
}

// A kernel before the copy has another edge, to a kernel that starts early; behind the copy stand two nodes.
TEST_F(OnCardGraphEdits, a_copy_is_left_out_between_branches_and_kernels_that_start_early) {
  CudaContext& context = CudaContext::of_card(0);
  const cuda::Driver& driver = context.driver();
  constexpr std::size_t kBytes = 4096;
  auto* const memory = static_cast<std::byte*>(device_->allocate_memory(4 * kBytes));
  device_->fill_zero(memory, 4 * kBytes);
  const CudaContext::Scope scope(context);
  cuda::CUstream side = nullptr;
  cuda::check(driver.cuStreamCreate(&side, cuda::CU_STREAM_NON_BLOCKING), "create a stream");
  cuda::StreamPoint fork(context), join(context);
  const auto fill = [&](std::byte* to, unsigned value) {
    cuda::FillBytes bytes{reinterpret_cast<unsigned char*>(to), value, 1, kBytes};
    void* arguments[] = {&bytes};
    const cuda::LaunchShape shape{.block_x = cuda::FillBytes::kThreads, .waits_by_itself = true};
    context.launch(context.kernel("fill", "fill_bytes"), shape, arguments, "fill_bytes");
  };
  const auto copy = [&](std::size_t to, cuda::CUstream stream) {
    cuda::check(driver.cuMemcpyDtoDAsync_v2(address(memory + to * kBytes), address(memory), kBytes, stream), "copy");
  };
  CudaGraph graph(context, [&] {
    fill(memory, 1);
    fork.record(context.stream());
    fork.make_wait(side);
    copy(1, side);  // which is left out
    join.record(side);
    copy(2, side);
    fill(memory + 3 * kBytes, 3);
    join.make_wait(context.stream());
    join.record(side);
    join.make_wait(context.stream());
    fill(memory, 4);
    context.graph_edits().leave_out_copy(memory, memory + kBytes);
  });
  graph.run();
  std::vector<std::byte> found(4 * kBytes);
  device_->copy_to_host(found.data(), memory, found.size());
  for (const auto& [part, value] : {std::pair{0, 4}, {1, 0}, {2, 1}, {3, 3}}) {
    const auto begin = found.begin() + part * static_cast<std::ptrdiff_t>(kBytes);
    EXPECT_EQ(std::count(begin, begin + kBytes, std::byte(value)), std::ptrdiff_t{kBytes}) << part;
  }
  device_->release_memory(memory, 4 * kBytes);
}

}  // namespace
}  // namespace ridgepoint
