// The CPU device: its name, its memory and its limits, and opening devices by name.
#include "backends/cpu/device.h"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>

#include "backends/cpu/kernel_harness.h"
#include "backends/cpu/matmul/matmul.h"
#include "core/threads/parallel.h"
#include "hwy/targets.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::shared_ptr<Device> cpu_with_memory(std::size_t bytes) {
  DeviceOptions options;
  options.memory_limit_bytes = bytes;
  return make_cpu_device(options);
}

TEST(CpuDevice, says_what_it_is) {
  const std::shared_ptr<Device> device = make_cpu_device();
  EXPECT_EQ(device->kind(), "cpu");
  EXPECT_FALSE(device->name().empty());
  EXPECT_GT(device->total_memory_bytes(), 64 * kMiB);
}

// If the variable limits the instruction set, the set is one of its values.
TEST(CpuDevice, says_which_instructions_it_uses) {
  const std::optional<std::string> set = make_cpu_device()->facts().instruction_set;
  ASSERT_TRUE(set.has_value());
  EXPECT_THAT(*set, ::testing::AnyOf("avx2", "avx512", "avx512_bf16", "amx"));
  const char* held = std::getenv(cpu::kInstructionSetVariable);
  if (held != nullptr && std::string_view(held) == "avx2") {
    EXPECT_EQ(*set, "avx2");
    EXPECT_FALSE(cpu::has_bf16_products());
    EXPECT_EQ(hwy::SupportedTargets() & (HWY_AVX2 - 1), 0);
  } else if (held != nullptr && std::string_view(held) == "avx512") {
    EXPECT_THAT(*set, ::testing::AnyOf("avx2", "avx512"));
    EXPECT_EQ(hwy::SupportedTargets() & (HWY_AVX3 - 1), 0);
  }
}

TEST(CpuDevice, refuses_instructions_that_have_no_name) {
  const char* found = std::getenv(cpu::kInstructionSetVariable);
  const std::string before = found == nullptr ? "" : found;
  ::setenv(cpu::kInstructionSetVariable, "avx1024", 1);
  EXPECT_THAT(error_of([&] { make_cpu_device(); }, ErrorKind::usage),
              AllOf(HasSubstr("'avx1024'"), HasSubstr("avx2 or avx512")));
  ::setenv(cpu::kInstructionSetVariable, before.c_str(), 1);
  EXPECT_NO_THROW(make_cpu_device());
}

TEST(CpuDevice, memory_is_aligned_zeroed_and_writable_to_the_last_byte) {
  const std::shared_ptr<Device> device = make_cpu_device();
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{512}, 2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 1}) {
    auto* address = static_cast<unsigned char*>(device->allocate_memory(bytes));
    ASSERT_NE(address, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 512, 0U);
    EXPECT_EQ(std::accumulate(address, address + bytes, 0), 0);
    std::memset(address, 0xff, bytes);
    device->release_memory(address, bytes);
  }
}

TEST(CpuDevice, a_memory_limit_makes_it_smaller) {
  const std::shared_ptr<Device> device = cpu_with_memory(8 * kMiB);
  EXPECT_EQ(device->total_memory_bytes(), 8 * kMiB);
  void* first = device->allocate_memory(6 * kMiB);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(device->allocate_memory(3 * kMiB), nullptr);
  EXPECT_EQ(device->allocate_memory(SIZE_MAX), nullptr);
  void* second = device->allocate_memory(2 * kMiB);
  EXPECT_NE(second, nullptr);
  device->release_memory(first, 6 * kMiB);
  device->release_memory(second, 2 * kMiB);
  void* whole = device->allocate_memory(8 * kMiB);
  EXPECT_NE(whole, nullptr);
  device->release_memory(whole, 8 * kMiB);
}

TEST(CpuDevice, a_memory_limit_never_makes_it_larger) {
  EXPECT_EQ(cpu_with_memory(SIZE_MAX)->total_memory_bytes(), make_cpu_device()->total_memory_bytes());
}

TEST(CpuDevice, refuses_more_than_there_is) {
  const std::shared_ptr<Device> device = make_cpu_device();
  EXPECT_EQ(device->allocate_memory(device->total_memory_bytes()), nullptr) << "this process itself takes some";
  EXPECT_EQ(device->allocate_memory(device->total_memory_bytes() + 1), nullptr);
}

TEST(CpuDevice, copies_there_and_back_and_zeroes) {
  const std::shared_ptr<Device> device = make_cpu_device();
  std::vector<std::byte> host(3 * kMiB + 5, std::byte{42});
  std::vector<std::byte> back(host.size());
  void* address = device->allocate_memory(host.size());
  device->copy_to_device(address, host.data(), host.size());
  device->copy_to_host(back.data(), address, back.size());
  EXPECT_EQ(back, host);
  device->fill_zero(address, host.size() - 1);
  device->copy_to_host(back.data(), address, back.size());
  EXPECT_TRUE(std::all_of(back.begin(), back.end() - 1, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(back.back(), std::byte{42});
  device->release_memory(address, host.size());
}

TEST(CpuDevice, the_timer_measures_elapsed_time) {
  const std::unique_ptr<DeviceTimer> timer = make_cpu_device()->make_timer();
  const auto begin = std::chrono::steady_clock::now();
  timer->start();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(3)) {
  }
  timer->stop();
  const std::chrono::duration<double, std::milli> around = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(timer->elapsed_ms(), 2.5);
  EXPECT_LE(timer->elapsed_ms(), around.count());
}

TEST(CpuDevice, takes_the_thread_count_it_is_given) {
  testing::cpu_with_threads(3);
  EXPECT_EQ(thread_count(), 3);
  EXPECT_THROW(testing::cpu_with_threads(-1), Error);
  make_cpu_device();
  EXPECT_GE(thread_count(), 1);
}

TEST(CpuDevice, has_kernels_for_every_primitive) {
  const std::shared_ptr<Device> device = make_cpu_device();
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, Shape{4, 8}}, Role::data);
  const Value indices = input(graph, "i", {DType::int64, Shape{4}}, Role::data);
  for (const Value value : {add(graph, x, x), reduce_sum(graph, x, {1}), matmul(graph, x, transpose(graph, x, {1, 0})),
                            embedding(graph, x, indices), embedding_backward(graph, x, indices, 9)}) {
    EXPECT_TRUE(device->has_kernel(graph, graph.producer_node(value))) << name(graph.producer_node(value).op);
  }
}

TEST(CpuDevice, decomposes_rope_of_fp64_and_fp16) {
  const std::shared_ptr<Device> device = make_cpu_device();
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    Graph graph;
    const DType wide = dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    const Value table = input(graph, "table", {wide, Shape{6, 4}}, Role::constant);
    const Value x = input(graph, "x", {dtype, Shape{2, 6, 8}}, Role::data);
    const Value y = rope(graph, x, table, table, 1);
    const bool has = dtype == DType::fp32 || dtype == DType::bf16;
    EXPECT_EQ(device->has_kernel(graph, graph.producer_node(y)), has) << name(dtype);
  }
}

TEST(OpenDevice, knows_every_back_end_by_name) {
  for (const std::string_view kind : {"cpu", "reference", "null"}) EXPECT_EQ(open_device(kind)->kind(), kind);
}

TEST(OpenDevice, says_the_nearest_name) {
  EXPECT_THAT(error_of([&] { open_device("cpuu"); }, ErrorKind::usage),
              AllOf(HasSubstr("'cpuu'"), HasSubstr("did you mean 'cpu'")));
}

TEST(OpenDevice, a_null_device_is_limited_only_when_asked) {
  DeviceOptions options;
  options.memory_limit_bytes = 4 * kMiB;
  const std::shared_ptr<Device> limited = open_device("null", options);
  EXPECT_EQ(limited->allocate_memory(5 * kMiB), nullptr);
  const std::shared_ptr<Device> endless = open_device("null");
  const std::size_t petabyte = std::size_t{1} << 50;
  void* address = endless->allocate_memory(petabyte);
  EXPECT_NE(address, nullptr);
  endless->release_memory(address, petabyte);
}

}  // namespace
}  // namespace ridgepoint
