// Programs with an arena that fail: a kernel that throws, an arena that does not fit.

#include <utility>

#include "backends/null/null_device.h"
#include "backends/reference/reference_device.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/forwarding_device.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

Program exponentials(const std::shared_ptr<Device>& device) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {1000}}, Role::data);
  graph.add_output("y", neg(graph, exp(graph, neg(graph, x))));
  return {std::move(graph), device, {.allocator = AllocatorKind::arena}};
}

// A device whose kernels throw while `fails` is set.
class FailingDevice : public testing::ForwardingDevice {
 public:
  FailingDevice() : ForwardingDevice(make_reference_device()) {}

  std::string_view kind() const override { return "failing"; }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<FailingKernel>(inner_->make_kernel(spec), fails);
  }

  bool fails = false;

 private:
  class FailingKernel : public Kernel {
   public:
    FailingKernel(std::unique_ptr<Kernel> inner, const bool& fails) : inner_(std::move(inner)), fails_(fails) {}
    std::string_view name() const override { return inner_->name(); }
    void launch(const LaunchArguments& arguments) override {
      if (fails_) throw Error("no");
      inner_->launch(arguments);
    }

   private:
    std::unique_ptr<Kernel> inner_;
    const bool& fails_;
  };
};

TEST(FailingArena, stays_usable_after_a_kernel_failed_in_any_run) {
  for (const int runs_before : {0, 1, 3}) {
    const auto device = std::make_shared<FailingDevice>();
    Program program = exponentials(device);
    const std::size_t at_start = program.memory_use().allocated_bytes;
    for (int run = 0; run < runs_before; ++run) program.run();
    device->fails = true;
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_THROW(program.run(), Error);
      EXPECT_EQ(program.memory_use().allocated_bytes, at_start) << "only the inputs stay allocated";
      EXPECT_THROW(program.read_output("y"), Error);
    }
    device->fails = false;
    for (int run = 0; run < 2; ++run) {
      program.run();
      EXPECT_EQ(program.read_output("y").as<float>()[999], -1.0F);
    }
  }
}

TEST(FailingArena, that_does_not_fit_names_its_largest_blocks) {
  const auto program = [](std::size_t limit_bytes) {
    const std::shared_ptr<Device> target = make_reference_device();
    ProgramOptions options{.allocator = AllocatorKind::arena};
    options.compile.mode = Mode::step;
    TransformerConfig config = transformer_preset("tiny");
    config.context = 2048;
    return Program(ProgramPlan(build_transformer(config, 4), target, options), make_null_device(target, limit_bytes));
  };
  const std::size_t needed_bytes = program(std::size_t{1} << 40).memory_use().reserved_bytes;
  EXPECT_NO_THROW(program(needed_bytes).run());
  try {
    program(needed_bytes - 1);
    FAIL() << "the arena came out of less than its size";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested_bytes(), needed_bytes);
    EXPECT_EQ(error.shortage().short_bytes(), 1u);
    ASSERT_EQ(error.shortage().largest.size(), 3u);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("for the arena of all buffers: asked for"), HasSubstr("most of it at its peak: "),
                      HasSubstr("(activation, first in forward at "), HasSubstr(" of layers.0.attn"),
                      HasSubstr("use a smaller batch or context")));
  }
}

}  // namespace
}  // namespace ridgepoint
