// The library in a program that uses CUDA too: calls go to the library's own context, and restore the context that the
// program made current.
#include "backends/cuda/driver/context.h"

#include <thread>

#include "backends/cuda/device.h"
#include "backends/cuda/driver/event.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::Event;
using cuda::Module;

constexpr const char* kImage = "// a kernel as text";

cuda::CUcontext current() {
  cuda::CUcontext context = nullptr;
  cuda::check(cuda::driver().cuCtxGetCurrent(&context), "ask for the context");
  return context;
}

// The program that uses the library.
cuda::CUcontext make_another_current() {
  static char object;
  const auto context = reinterpret_cast<cuda::CUcontext>(&object);
  cuda::check(cuda::driver().cuCtxPushCurrent_v2(context), "switch");
  return context;
}

Graph two_products() {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {8, 8}}, Role::data);
  graph.add_output("c", matmul(graph, matmul(graph, a, a), a));
  return graph;
}

struct CudaContextOnFakeCard : testing::OnFakeCard {
  static void expect_nothing_went_elsewhere() { EXPECT_EQ(fake_count("fake_card_calls_elsewhere"), 0); }
};

TEST_F(CudaContextOnFakeCard, every_call_leaves_the_programs_context_current) {
  on_fake_card([] {
    const cuda::CUcontext theirs = make_another_current();
    CudaContext& card = CudaContext::of_card(0);
    EXPECT_EQ(current(), theirs) << "after the card was opened";
    {
      void* memory = card.allocate(1024);
      card.fill_zero(memory, 1024);
      card.release(memory);
      EXPECT_EQ(current(), theirs) << "after memory";
      const Module module(card, kImage, "text");
      card.launch(module.function("kernel"), {}, nullptr, "kernel");
      EXPECT_EQ(current(), theirs) << "after a launch";
      Event start(card);
      Event stop(card);
      start.record();
      stop.record();
      EXPECT_GE(stop.ms_since(start), 0.0);
      card.synchronize();
      EXPECT_GT(card.memory_info().free_bytes, 0U);
      EXPECT_EQ(current(), theirs) << "after events";
    }
    EXPECT_EQ(current(), theirs) << "after events and modules were destroyed";
    expect_nothing_went_elsewhere();
  });
}

TEST_F(CudaContextOnFakeCard, launches_go_to_the_card_after_the_program_switched_to_another) {
  on_fake_card([] {
    CudaContext& card = CudaContext::of_card(0);
    auto module = std::make_unique<Module>(card, kImage, "text");
    const cuda::CUfunction kernel = module->function("kernel");
    card.launch(kernel, {}, nullptr, "kernel");
    const cuda::CUcontext theirs = make_another_current();
    card.launch(kernel, {}, nullptr, "kernel");
    module.reset();
    EXPECT_EQ(current(), theirs);
    expect_nothing_went_elsewhere();
  });
}

TEST_F(CudaContextOnFakeCard, a_thread_without_a_context_has_none_afterwards) {
  on_fake_card([] {
    CudaContext& card = CudaContext::of_card(0);
    std::thread([&] {
      card.synchronize();
      EXPECT_EQ(current(), nullptr);
    }).join();
    expect_nothing_went_elsewhere();
  });
}

TEST_F(CudaContextOnFakeCard, a_program_runs_beside_one_that_switches_between_its_calls) {
  on_fake_card([] {
    Program program(two_products(), make_cuda_device(0));
    EXPECT_EQ(current(), nullptr);
    const cuda::CUcontext theirs = make_another_current();
    for (int i = 0; i < 3; ++i) program.run();
    program.synchronize();
    EXPECT_EQ(program.read_output("c").type.shape, (Shape{8, 8}));
    EXPECT_EQ(current(), theirs);
    Program(two_products(), make_cuda_device(0)).run();
    EXPECT_EQ(current(), theirs);
    expect_nothing_went_elsewhere();
  });
}

TEST_F(CudaContextOnFakeCard, a_run_asks_for_the_current_context_once_however_many_its_launches) {
  on_fake_card([] {
    Program program(two_products(), make_cuda_device(0));
    program.run();  // allocates memory from the driver
    const int before = fake_count("fake_card_context_calls");
    program.run();
    EXPECT_EQ(fake_count("fake_card_context_calls") - before, 3);  // get the current context, push, pop
  });
}

TEST_F(CudaContextOnFakeCard, scopes_within_each_other_end_one_by_one) {
  on_fake_card([] {
    const CudaContext& card = CudaContext::of_card(0);
    const cuda::CUcontext theirs = make_another_current();
    {
      const CudaContext::Scope outer(card);
      const cuda::CUcontext ours = current();
      EXPECT_NE(ours, theirs);
      { const CudaContext::Scope inner(card); }
      EXPECT_EQ(current(), ours);
    }
    EXPECT_EQ(current(), theirs);
  });
}

TEST_F(CudaContextOnFakeCard, a_call_that_throws_restores_the_programs_context) {
  set("FAKE_CARD_FAILS_AFTER", "3");
  on_fake_card([] {
    const std::shared_ptr<Device> device = make_cuda_device(0);
    CudaContext& card = CudaContext::of_card(0);
    const cuda::CUfunction kernel = Module(card, kImage, "text").function("kernel");
    const cuda::CUcontext theirs = make_another_current();
    const auto launch_four = [&] {
      for (int i = 0; i < 4; ++i) card.launch(kernel, {}, nullptr, "kernel");
    };
    EXPECT_THROW(device->while_current(launch_four), Error);
    EXPECT_EQ(current(), theirs);
    EXPECT_THROW(card.synchronize(), Error);
    EXPECT_EQ(current(), theirs);
  });
}

TEST_F(CudaContextOnFakeCard, a_card_that_does_not_open_is_let_go_of) {
  set("FAKE_CARD_REFUSES_STREAMS", "1");
  on_fake_card([] {
    const cuda::CUcontext theirs = make_another_current();
    for (int i = 0; i < 2; ++i) EXPECT_THROW(CudaContext::of_card(0), Error);
    EXPECT_EQ(fake_count("fake_card_retained"), 0);
    EXPECT_EQ(current(), theirs);
    ::unsetenv("FAKE_CARD_REFUSES_STREAMS");
    EXPECT_NO_THROW(CudaContext::of_card(0));
    EXPECT_EQ(fake_count("fake_card_retained"), 1);
  });
}

struct HeldCapability : testing::OnFakeCard {
  static constexpr const char* kVariable = cuda::kCapabilityVariable;
};

TEST_F(HeldCapability, gives_a_card_the_capability_and_the_shared_memory_of_a_lower_one) {
  set(kVariable, "8.6");
  on_fake_card([] {
    const cuda::CardFacts& card = CudaContext::of_card(0).card();
    EXPECT_EQ(card.capability.number(), 86);
    EXPECT_EQ(card.shared_bytes_per_block, 99U * 1024);
    EXPECT_EQ(card.architecture, 90) << "code is compiled for the GPU that is there";
  });
}

TEST_F(HeldCapability, leaves_a_card_as_it_is_where_it_is_not_set) {
  set(kVariable, "");
  on_fake_card([] { EXPECT_EQ(cuda::card_facts(0).capability.number(), 90); });
}

// Its kernels for Hopper run on Hopper alone.
TEST_F(HeldCapability, lets_no_later_card_stand_for_hopper) {
  set("FAKE_CARD_CAPABILITY", "120");
  set(kVariable, "9.0");
  on_fake_card([] { EXPECT_THAT(error_of([] { cuda::card_facts(0); }), HasSubstr("8.0, 8.6, 8.7, 8.9, 10.0")); });
  set(kVariable, "8.9");
  on_fake_card([] { EXPECT_EQ(cuda::card_facts(0).capability.number(), 89); });
}

TEST_F(HeldCapability, refuses_what_the_card_cannot_stand_for) {
  for (const char* capability : {"12.0", "10.0", "8.5", "86", "hopper"}) {
    set(kVariable, capability);
    on_fake_card([&] {
      const std::string error = error_of([] { cuda::card_facts(0); });
      EXPECT_THAT(error, HasSubstr("'" + std::string(capability) + "'"));
      EXPECT_THAT(error, HasSubstr("(NVIDIA H200) can stand for, 8.0, 8.6, 8.7, 8.9, 9.0, or unset it"));
    });
  }
}

}  // namespace
}  // namespace ridgepoint
