// The null device: the properties of the target, without its arithmetic and its memory.
#include "backends/null/null_device.h"

#include <gtest/gtest.h>

#include <array>

#include "backends/reference/reference_device.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;

// The choices of the reference device, for a card.
class Gpu : public KernelChoices {
 public:
  std::string name() const override { return "a card"; }
  DeviceFacts facts() const override {
    DeviceFacts facts;
    facts.compute_capability = "9.0";
    return facts;
  }
  bool has_kernel(const Graph& graph, const Node& node) const override { return reference_->has_kernel(graph, node); }
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override {
    return reference_->operand_layout(graph, node, index);
  }
  KernelOutline outline(const KernelSpec& spec) override { return reference_->outline(spec); }

 private:
  std::shared_ptr<Device> reference_ = make_reference_device();
};

class NullDeviceTest : public testing::Test {
 protected:
  std::shared_ptr<Device> target_ = make_reference_device();
  std::shared_ptr<Device> device_ = make_null_device(target_);
};

TEST_F(NullDeviceTest, describes_its_target) {
  EXPECT_EQ(device_->kind(), "null");
  EXPECT_EQ(device_->name(), target_->name());
}

TEST_F(NullDeviceTest, answers_for_every_op_as_its_target) {
  const Graph graph;
  for (const Op op : kAllOps) {
    Node node;
    node.op = op;
    EXPECT_EQ(device_->has_kernel(graph, node), target_->has_kernel(graph, node)) << name(op);
    EXPECT_EQ(device_->operand_layout(graph, node, 0), target_->operand_layout(graph, node, 0)) << name(op);
    EXPECT_EQ(device_->writes_strided(graph, node), target_->writes_strided(graph, node)) << name(op);
  }
}

TEST_F(NullDeviceTest, makes_kernels_with_the_name_and_workspace_of_the_target_that_do_nothing) {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {64, 32}}, Role::data);
  const Value b = input(graph, "b", {DType::fp32, {32, 16}}, Role::data);
  const Value product = matmul(graph, a, b);
  const std::array inputs{dense_layout(graph.type(a)), dense_layout(graph.type(b))};
  const std::array outputs{dense_layout(graph.type(product))};
  const KernelSpec spec{graph, graph.producer_node(product), inputs, outputs};
  const std::unique_ptr<Kernel> kernel = device_->make_kernel(spec);
  EXPECT_EQ(kernel->name(), target_->make_kernel(spec)->name());
  EXPECT_EQ(kernel->workspace_bytes(), target_->make_kernel(spec)->workspace_bytes());
  EXPECT_GT(kernel->workspace_bytes(), 0u);

  const std::array<void*, 2> nowhere{device_->allocate_memory(8192), device_->allocate_memory(2048)};
  void* output = device_->allocate_memory(4096);
  kernel->launch({nowhere.data(), &output, nullptr});  // touching any of these would crash
}

TEST_F(NullDeviceTest, gives_addresses_that_are_apart_and_aligned_without_backing_them) {
  std::uintptr_t previous_end = 0;
  for (const std::size_t bytes : {std::size_t{1}, 512 * kGiB, std::size_t{513}, 4096 * kGiB}) {
    const auto address = reinterpret_cast<std::uintptr_t>(device_->allocate_memory(bytes));
    ASSERT_NE(address, 0u);
    EXPECT_EQ(address % 512, 0u);
    EXPECT_GE(address, previous_end);
    previous_end = address + bytes;
  }
}

TEST_F(NullDeviceTest, ignores_writes_and_reads_zeros) {
  void* address = device_->allocate_memory(16);
  const std::array<std::uint64_t, 2> sent{1, 2};
  device_->copy_to_device(address, sent.data(), 16);
  device_->fill_zero(address, 16);
  device_->synchronize();
  std::array<std::uint64_t, 2> received{3, 4};
  device_->copy_to_host(received.data(), address, 16);
  EXPECT_EQ(received, (std::array<std::uint64_t, 2>{0, 0}));
}

TEST_F(NullDeviceTest, measures_no_time) {
  const std::unique_ptr<DeviceTimer> timer = device_->make_timer();
  timer->start();
  timer->stop();
  EXPECT_EQ(timer->elapsed_ms(), 0.0);
}

TEST_F(NullDeviceTest, captures_launches_where_its_target_is_a_gpu) {
  int runs = 0;
  const auto body = [&runs] { ++runs; };
  EXPECT_EQ(device_->capture(body), nullptr);
  EXPECT_EQ(runs, 0);
  const std::unique_ptr<CapturedLaunches> captured = make_null_device(std::make_shared<Gpu>())->capture(body);
  EXPECT_EQ(runs, 1);
  captured->run();
  EXPECT_EQ(runs, 1);
}

TEST_F(NullDeviceTest, has_the_memory_it_is_given_or_no_end_of_it) {
  EXPECT_EQ(make_null_device(target_, 5 * kGiB)->total_memory_bytes(), 5 * kGiB);
  EXPECT_EQ(device_->total_memory_bytes(), std::size_t{1} << 60);
}

TEST_F(NullDeviceTest, walks_far_more_memory_than_the_machine_has) {
  const std::unique_ptr<CachingAllocator> allocator = make_caching_allocator(*device_);
  std::vector<void*> addresses;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    addresses.push_back(allocator->allocate(80 * kGiB, MemoryCategory::activation, i));
  }
  EXPECT_EQ(allocator->use().reserved_bytes, 80000 * kGiB);
  for (void* address : addresses) allocator->free(address);
  allocator->release_cached();
  EXPECT_EQ(allocator->use().reserved_bytes, 0u);
}

TEST_F(NullDeviceTest, runs_out_at_its_limit_and_recovers) {
  const std::shared_ptr<Device> limited = make_null_device(target_, 24 * kGiB);
  const std::unique_ptr<CachingAllocator> allocator = make_caching_allocator(*limited);
  void* address = allocator->allocate(20 * kGiB, MemoryCategory::parameter, kNoNode);
  try {
    allocator->allocate(5 * kGiB, MemoryCategory::activation, kNoNode);
    FAIL() << "25 GiB came out of 24";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested_bytes(), 5 * kGiB);
    EXPECT_EQ(error.free_bytes(), 4 * kGiB);
  }
  allocator->free(address);
  EXPECT_NE(allocator->allocate(24 * kGiB, MemoryCategory::activation, kNoNode), nullptr);
}

TEST_F(NullDeviceTest, refuses_more_than_can_be_addressed) { EXPECT_EQ(device_->allocate_memory(SIZE_MAX), nullptr); }

}  // namespace
}  // namespace ridgepoint
