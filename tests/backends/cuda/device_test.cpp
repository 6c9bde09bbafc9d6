// The GPU as a device: its memory, copies, timer and limits.
#include "backends/cuda/device.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "backends/cuda/card.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/libraries/shared_library.h"
#include "memory/caching_allocator.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(CudaDevice, a_name_with_a_number_that_is_none_is_a_usage_error) {
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cpu:0"}) {
    EXPECT_THAT(error_of([&] { open_device(name); }, ErrorKind::usage), HasSubstr(name));
  }
}

TEST(CudaDevice, is_the_default_exactly_where_a_card_can_be_used) {
  EXPECT_EQ(default_device_name(), testing::missing_card().empty() ? "cuda" : "cpu");
}

TEST(CudaDevice, a_build_without_kernels_opens_no_card_and_says_how_to_build_them) {
  if (testing::missing_kernels().empty()) GTEST_SKIP() << "this build has kernels";
  const std::string message = error_of([] { open_device("cuda"); });
  EXPECT_THAT(message, AllOf(HasSubstr("no CUDA kernels"), HasSubstr("without a CUDA toolkit"),
                             HasSubstr("-DRIDGEPOINT_CUDA=ON"), HasSubstr("12.4 or newer")));
  EXPECT_EQ(cuda_card_count(), 0);
  EXPECT_THAT(device_names(), ElementsAre("cpu", "reference", "null"));
}

TEST(CudaDevice, is_described_in_every_build_from_the_least_capability_on) {
  EXPECT_FALSE(can_describe_card(cuda::kLeastCapability - 1));
  EXPECT_TRUE(can_describe_card(cuda::kLeastCapability));
  const CardDescription old{.name = "Tesla T4", .compute_capability = 75};
  EXPECT_THAT(error_of([&] { open_device("null", {.memory_limit_bytes = {}, .card = old}); }),
              AllOf(HasSubstr("Tesla T4"), HasSubstr("8.0 or newer")));
}

using CudaDeviceOnFakeCard = testing::OnFakeCard;

std::atomic<int> pieces = 0;
std::atomic<std::uint64_t> copied_bytes = 0, largest_piece = 0;

// Other copies from the GPU, such as that of a loss, go in between.
TEST_F(CudaDeviceOnFakeCard, brings_a_large_copy_to_the_host_in_pieces_one_after_another) {
  on_fake_card([] {
    constexpr std::size_t kPieceBytes = std::size_t{16} << 20, kBytes = 3 * kPieceBytes + 5;
    const std::shared_ptr<Device> device = make_cuda_device(0);
    std::vector<std::byte> host(kBytes), back(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) host[i] = static_cast<std::byte>(i * 7 / 3);
    void* const state = device->allocate_memory(kBytes);
    device->copy_to_device(state, host.data(), kBytes);
    const auto copies = device->make_copies();
    fake_function<decltype(fake_card_watch_host_copies)>("fake_card_watch_host_copies")([](std::uint64_t bytes) {
      ++pieces;
      copied_bytes += bytes;
      largest_piece = std::max(largest_piece.load(), bytes);
    });
    const auto hang = fake_function<decltype(fake_card_hang)>("fake_card_hang");
    hang(true);
    std::jthread copy([&] { copies->copy_to_host(back.data(), state, kBytes); });
    while (pieces < 1) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(pieces, 1) << "before the first piece has come";
    hang(false);
    copy.join();
    EXPECT_EQ(pieces, 4);
    EXPECT_EQ(largest_piece, kPieceBytes);
    EXPECT_EQ(copied_bytes, kBytes);
    EXPECT_TRUE(back == host);
    device->release_memory(state, kBytes);
  });
}

class OnCardDevice : public testing::OnCard {};

TEST_F(OnCardDevice, a_card_that_is_not_there_is_refused_with_the_count) {
  const int count = cuda_card_count();
  EXPECT_THAT(error_of([&] { make_cuda_device(count); }, ErrorKind::usage),
              AllOf(HasSubstr("no GPU " + std::to_string(count)), HasSubstr("has " + std::to_string(count))));
}

TEST_F(OnCardDevice, copies_to_the_host_beside_its_work) {
  constexpr std::size_t kBytes = std::size_t{64} << 20, kLarge = std::size_t{1} << 30;
  std::vector<std::byte> host(kBytes), back(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) host[i] = static_cast<std::byte>(i * 7 / 3);
  void* const state = device_->allocate_memory(kBytes);
  void* const kept = device_->allocate_memory(kBytes);
  void* const large = device_->allocate_memory(kLarge);
  const std::shared_ptr<void> locked = device_->lock_pages(back);
  const auto copies = device_->make_copies();
  device_->copy_to_device(state, host.data(), kBytes);
  device_->fill_zero(large, kLarge);
  copies->copy_on_device(kept, state, kBytes);
  device_->fill_zero(state, kBytes);  // as the next step changes it
  device_->synchronize();
  for (int i = 0; i < 2000; ++i) device_->fill_zero(large, kLarge);  // more than half a second of work
  copies->copy_to_host(back.data(), kept, kBytes);
  const cuda::CudaContext& context = cuda::CudaContext::of_card(0);
  {
    const cuda::CudaContext::Scope scope(context);
    EXPECT_EQ(context.driver().cuStreamQuery(context.stream()), cuda::CUDA_ERROR_NOT_READY)
        << "the copy waited for the work";
  }
  EXPECT_TRUE(back == host);
  device_->synchronize();
  for (void* address : {state, kept}) device_->release_memory(address, kBytes);
  device_->release_memory(large, kLarge);
}

TEST_F(OnCardDevice, reads_a_number_while_a_large_copy_is_on_its_way_to_the_host) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  std::vector<std::byte> back(kBytes);
  void* const state = device_->allocate_memory(kBytes);
  void* const loss = device_->allocate_memory(sizeof(float));
  device_->fill_zero(loss, sizeof(float));
  const auto mark = std::byte{1};
  device_->copy_to_device(state, &mark, sizeof mark);
  const std::shared_ptr<void> locked = device_->lock_pages(back);
  const auto copies = device_->make_copies();
  std::atomic<bool> is_there = false;
  std::jthread copy([&] {
    copies->copy_to_host(back.data(), state, kBytes);
    is_there = true;
  });
  const volatile std::byte& first = back.front();
  while (first != mark) std::this_thread::yield();  // the copy is on its way
  constexpr int kReads = 10;
  int beside = 0;
  for (int i = 0; i < kReads; ++i) {
    float read = 1;
    device_->copy_to_host(&read, loss, sizeof(float));
    beside += is_there ? 0 : 1;
  }
  EXPECT_EQ(beside, kReads) << "a read waited for the copy, which takes 40 ms";
  copy.join();
  device_->release_memory(state, kBytes);
  device_->release_memory(loss, sizeof(float));
}

TEST_F(OnCardDevice, copies_there_and_back_and_clears) {
  std::vector<int> numbers(1'000'003);
  std::iota(numbers.begin(), numbers.end(), 1);
  const std::size_t bytes = numbers.size() * sizeof(int);
  void* address = device_->allocate_memory(bytes);
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 512, 0U);
  device_->copy_to_device(address, numbers.data(), bytes);
  std::vector<int> back(numbers.size());
  device_->copy_to_host(back.data(), address, bytes);
  EXPECT_EQ(back, numbers);
  device_->fill_zero(address, bytes);
  device_->copy_to_host(back.data(), address, bytes);
  EXPECT_EQ(back, std::vector<int>(numbers.size()));
  device_->release_memory(address, bytes);
}

TEST_F(OnCardDevice, has_no_memory_past_its_limit_and_none_past_the_card) {
  const auto limited = make_cuda_device(0, {.memory_limit_bytes = std::size_t{8} << 20});
  EXPECT_EQ(limited->total_memory_bytes(), std::size_t{8} << 20);
  void* half = limited->allocate_memory(std::size_t{4} << 20);
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(limited->allocate_memory((std::size_t{4} << 20) + 1), nullptr);
  limited->release_memory(half, std::size_t{4} << 20);
  EXPECT_EQ(device_->allocate_memory(device_->total_memory_bytes()), nullptr);  // the context holds some of it
  void* after = device_->allocate_memory(std::size_t{1} << 20);
  EXPECT_NE(after, nullptr) << "a failed allocation must leave the GPU usable";
  device_->release_memory(after, std::size_t{1} << 20);
}

TEST_F(OnCardDevice, tells_memory_that_others_hold_from_its_own) {
  const std::size_t free_bytes = *device_->free_memory_bytes();
  EXPECT_LT(free_bytes, device_->total_memory_bytes());
  EXPECT_GT(*device_->facts().used_at_start_bytes, 0);
  // Allocated outside the allocator, as another process would.
  const std::size_t other_bytes = free_bytes / 4 * 3;
  void* other = device_->allocate_memory(other_bytes);
  ASSERT_NE(other, nullptr);
  const std::unique_ptr<Allocator> allocator = make_caching_allocator(*device_, device_->total_memory_bytes());
  try {
    allocator->allocate(free_bytes / 2, MemoryCategory::temporary, kNoNode);
    ADD_FAILURE() << "there was room";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("other processes"));
    EXPECT_LT(error.free_bytes(), free_bytes / 2);
  }
  device_->release_memory(other, other_bytes);
}

TEST_F(OnCardDevice, times_what_lies_between_start_and_stop) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  void* address = device_->allocate_memory(kBytes);
  ASSERT_NE(address, nullptr);
  const std::unique_ptr<DeviceTimer> timer = device_->make_timer();
  const auto measure = [&](int times) {
    timer->start();
    for (int i = 0; i < times; ++i) device_->fill_zero(address, kBytes);
    timer->stop();
    return timer->elapsed_ms();
  };
  measure(1);
  const double one = measure(1);
  const double twenty = measure(20);
  EXPECT_GT(one, 0.0);
  EXPECT_GT(twenty, 4 * one);
  device_->release_memory(address, kBytes);
}

TEST_F(OnCardDevice, works_from_a_thread_that_never_saw_it) {
  std::vector<std::byte> bytes(4096, std::byte{42});
  std::vector<std::byte> back(bytes.size());
  std::thread([&] {
    void* address = device_->allocate_memory(bytes.size());
    device_->copy_to_device(address, bytes.data(), bytes.size());
    device_->copy_to_host(back.data(), address, bytes.size());
    device_->release_memory(address, bytes.size());
  }).join();
  EXPECT_EQ(back, bytes);
}

// In a program that has created a context of its own.
TEST_F(OnCardDevice, works_beside_another_context_and_leaves_it_current) {
  const cuda::SharedLibrary library("libcuda.so.1");
  const auto create =
      reinterpret_cast<cuda::CUresult (*)(cuda::CUcontext*, unsigned, cuda::CUdevice)>(library.find("cuCtxCreate_v2"));
  const auto destroy = reinterpret_cast<cuda::CUresult (*)(cuda::CUcontext)>(library.find("cuCtxDestroy_v2"));
  ASSERT_NE(create, nullptr);
  ASSERT_NE(destroy, nullptr);
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {64, 64}}, Role::data);
  graph.add_output("c", exp(graph, matmul(graph, a, a)));
  const auto product = [&] {
    Program program(graph, device_);
    HostTensor zeros({DType::fp32, {64, 64}});
    program.write_input("a", zeros);
    program.run();
    return program.read_output("c").as<float>()[0];
  };
  EXPECT_EQ(product(), 1.0F);
  cuda::CUcontext theirs = nullptr;
  ASSERT_EQ(create(&theirs, 0, 0), cuda::CUDA_SUCCESS);  // and makes it current
  EXPECT_EQ(product(), 1.0F);
  const std::unique_ptr<DeviceTimer> timer = device_->make_timer();
  timer->start();
  timer->stop();
  EXPECT_GE(timer->elapsed_ms(), 0.0);
  cuda::CUcontext current = nullptr;
  EXPECT_EQ(cuda::driver().cuCtxGetCurrent(&current), cuda::CUDA_SUCCESS);
  EXPECT_EQ(current, theirs);
  EXPECT_EQ(destroy(theirs), cuda::CUDA_SUCCESS);
  EXPECT_EQ(product(), 1.0F);
}

TransformerConfig little_model() {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 32;
  config.vocab = 512;
  return config;
}

TEST_F(OnCardDevice, a_model_too_large_for_the_limit_leaves_the_process_usable) {
  const TransformerConfig config = little_model();
  const auto limited = make_cuda_device(0, {.memory_limit_bytes = std::size_t{24} << 20});
  EXPECT_THROW(
      {
        Program program(testing::transformer_graph(config, 64, Mode::step), limited);
        program.run();
      },
      OutOfMemory);
  Program program(testing::transformer_graph(config, 1, Mode::forward), limited);
  EXPECT_NO_THROW(program.run());
  program.synchronize();
}

TEST_F(OnCardDevice, a_thousand_steps_take_no_more_memory_than_two) {
  const TransformerConfig config = little_model();
  Program program(testing::transformer_graph(config, 2, Mode::step), device_);
  program.run();
  program.run();
  program.synchronize();
  const std::size_t free_bytes = *device_->free_memory_bytes();
  const std::size_t reserved_bytes = program.memory_use().reserved_bytes;
  for (int i = 0; i < 998; ++i) program.run();
  program.synchronize();
  EXPECT_EQ(program.memory_use().reserved_bytes, reserved_bytes);
  EXPECT_GE(*device_->free_memory_bytes() + (std::size_t{2} << 20), free_bytes);
}

}  // namespace
}  // namespace ridgepoint
