// The device time of a run by kernel: kernel_times DEVICE PRESET BATCH CONTEXT MODE [LINES]
// Every launch is timed between two marks of the device's timer, so kernels do not overlap and gaps between them do not
// count. A line is the sum over the launches of one kernel with one set of shapes, the largest first, with the rate of
// the operations and bytes that the op needs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

struct KernelTime {
  std::string what;
  Cost cost;
  int launches = 0;
  double ms = 0;
};

// One launch of the run being timed.
struct Mark {
  std::unique_ptr<DeviceTimer> timer;
  KernelTime* sum;
};

class TimedKernel : public Kernel {
 public:
  TimedKernel(std::unique_ptr<Kernel> kernel, Mark mark) : kernel_(std::move(kernel)), mark_(std::move(mark)) {}
  std::string_view name() const override { return kernel_->name(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void prepare() override { kernel_->prepare(); }
  std::string_view unfused_because() const override { return kernel_->unfused_because(); }
  void launch(const LaunchArguments& arguments) override {
    mark_.timer->start();
    kernel_->launch(arguments);
    mark_.timer->stop();
  }
  void collect() const {
    ++mark_.sum->launches;
    mark_.sum->ms += mark_.timer->elapsed_ms();
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Mark mark_;
};

// Wraps another device and times its kernels.
class TimedDevice : public Device {
 public:
  explicit TimedDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  std::string_view kind() const override { return device_->kind(); }
  std::string name() const override { return device_->name(); }
  std::size_t total_memory_bytes() const override { return device_->total_memory_bytes(); }
  void* allocate_memory(std::size_t bytes) override { return device_->allocate_memory(bytes); }
  void release_memory(void* address, std::size_t bytes) override { device_->release_memory(address, bytes); }
  void copy_to_device(void* to, const void* from, std::size_t bytes) override {
    device_->copy_to_device(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override { device_->copy_to_host(to, from, bytes); }
  void fill_zero(void* address, std::size_t bytes) override { device_->fill_zero(address, bytes); }
  void synchronize() override { device_->synchronize(); }
  bool has_kernel(const Graph& graph, const Node& node) const override { return device_->has_kernel(graph, node); }
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override {
    return device_->operand_layout(graph, node, index);
  }
  std::unique_ptr<DeviceTimer> make_timer(std::size_t points) override { return device_->make_timer(points); }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    std::unique_ptr<Kernel> kernel = device_->make_kernel(spec);
    KernelTime& sum = sums_[description(spec, kernel->name())];
    sum.cost = cost(spec.graph, spec.node);
    auto timed = std::make_unique<TimedKernel>(std::move(kernel), Mark{device_->make_timer(), &sum});
    kernels_.push_back(timed.get());
    return timed;
  }

  // The times of one finished run, summed.
  void collect() {
    for (const TimedKernel* kernel : kernels_) kernel->collect();
  }

  std::vector<KernelTime> largest_first() const {
    std::vector<KernelTime> list;
    for (const auto& [what, sum] : sums_) list.push_back({what, sum.cost, sum.launches, sum.ms});
    std::ranges::sort(list, [](const KernelTime& a, const KernelTime& b) { return a.ms > b.ms; });
    return list;
  }

 private:
  static std::string description(const KernelSpec& spec, std::string_view kernel) {
    std::string text = fmt::format("{} {}", ridgepoint::name(spec.node.phase), kernel);
    for (std::size_t i = 0; i < std::min<std::size_t>(spec.inputs.size(), 3); ++i) {
      const TensorLayout& layout = spec.inputs[i];
      text += fmt::format(" {}{}", layout.shape.to_string(), layout.immediate || layout.is_dense() ? "" : "*");
    }
    return text;
  }

  std::shared_ptr<Device> device_;
  std::map<std::string, KernelTime> sums_;
  std::vector<const TimedKernel*> kernels_;
};

void report(const std::vector<KernelTime>& times, int runs, double host_ms, std::size_t lines) {
  double total = 0;
  int launches = 0;
  for (const KernelTime& time : times) {
    total += time.ms / runs;
    launches += time.launches / runs;
  }
  fmt::print("{:.3f} ms in {} kernels a run; {:.3f} ms a run by the host's clock\n", total, launches, host_ms);
  fmt::print("{:>9} {:>6} {:>6} {:>9} {:>9} {:>9}  kernel and operands (* strided)\n", "ms", "share", "count",
             "us each", "Tflop/s", "GB/s");
  for (std::size_t i = 0; i < std::min(lines, times.size()); ++i) {
    const KernelTime& time = times[i];
    const double each_ms = time.ms / time.launches;
    fmt::print("{:9.3f} {:5.1f}% {:6} {:9.2f} {:9.2f} {:9.0f}  {}\n", time.ms / runs, 100 * time.ms / runs / total,
               time.launches / runs, 1e3 * each_ms, static_cast<double>(time.cost.flops) / each_ms / 1e9,
               static_cast<double>(time.cost.bytes) / each_ms / 1e6, time.what);
  }
}

void run(int argc, char** argv) {
  if (argc < 6) {
    throw Error("usage: kernel_times DEVICE PRESET BATCH CONTEXT MODE [LINES]", ErrorKind::usage);
  }
  constexpr int kRuns = 5;
  TransformerConfig config = transformer_preset(argv[2]);
  config.context = std::atoll(argv[4]);
  const auto device = std::make_shared<TimedDevice>(open_device(argv[1]));
  Program program(build_transformer(config, std::atoll(argv[3])), device,
                  {.compile = {.mode = mode_from_name(argv[5])}});
  initialise(program, Transformer(config, std::atoll(argv[3])), 0);
  for (int i = 0; i < 2; ++i) program.run();
  program.synchronize();
  double host_ms = 0;
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    program.run();
    program.synchronize();
    host_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / kRuns;
    device->collect();
  }
  report(device->largest_first(), kRuns, host_ms, argc > 6 ? std::strtoull(argv[6], nullptr, 10) : 40);
}

}  // namespace
}  // namespace ridgepoint

int main(int argc, char** argv) {
  try {
    ridgepoint::run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_times: {}\n", error.what());
    return 1;
  }
}
