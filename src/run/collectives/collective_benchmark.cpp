#include "run/collectives/collective_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/median.h"
#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "ops/collectives.h"
#include "ops/layout.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 5;

// Integers from -8 to 8. Every floating type holds their sums over up to 16 ranks exactly; 32-bit types hold sums over
// any number of ranks.
int operand_of(std::int64_t rank, std::int64_t element) { return static_cast<int>((7 * element + 3 * rank) % 17) - 8; }

// Memory of a device outside of an allocator.
class DeviceBuffer {
 public:
  DeviceBuffer(Device& device, std::size_t bytes)
      : device_(device), bytes_(bytes), address_(device.allocate_memory(bytes)) {
    if (address_ != nullptr) return;
    throw_error(ErrorKind::unsupported, "{} has no {} for an operand", device.name(), format_bytes(bytes));
  }
  ~DeviceBuffer() { device_.release_memory(address_, bytes_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* address() const { return address_; }
  void write(const HostTensor& tensor) { device_.copy_to_device(address_, tensor.data.data(), tensor.data.size()); }
  HostTensor read(const TensorType& type) const {
    HostTensor tensor(type);
    device_.copy_to_host(tensor.data.data(), address_, tensor.data.size());
    return tensor;
  }

 private:
  Device& device_;
  std::size_t bytes_;
  void* address_;
};

// One collective of one tensor, and its memory.
class Collective {
 public:
  Collective(Device& device, Communicator& communicator, const ProcessGroup& group, const CollectiveSetup& setup)
      : device_(device), group_(group), op_(setup.op) {
    const std::int64_t ranks = group.ranks();
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(setup.dtype));
    const std::int64_t unit = element_bytes * ranks;
    const std::int64_t each = setup.bytes / unit + (setup.bytes % unit > 0 ? 1 : 0);
    const bool takes_part = op_ == Op::all_gather;
    operand_ = {setup.dtype, Shape{takes_part ? each : each * ranks}};
    whole_bytes_ = each * ranks * element_bytes;
    const Value x = input(graph_, "x", operand_, Role::data);
    Attributes attributes = {{"ranks", ranks}};
    if (op_ == Op::collective_broadcast) attributes.set("root", std::int64_t{0});
    const Node& node = graph_.node(make_node(graph_, op_, {x}, std::move(attributes)));
    result_ = graph_.type(node.outputs[0]);
    wire_bytes_ = wire_bytes(graph_, node);
    in_.emplace(device, operand_.bytes());
    out_.emplace(device, result_.bytes());
    HostTensor values(operand_);
    for (std::int64_t i = 0; i < operand_.elements(); ++i) {
      store_element(setup.dtype, values.data.data() + i * element_bytes, operand_of(group.rank(), i));
    }
    in_->write(values);
    const TensorLayout inputs[] = {dense_layout(operand_)};
    const TensorLayout outputs[] = {dense_layout(result_)};
    kernel_ = communicator.make_kernel({graph_, node, inputs, outputs});
  }

  std::int64_t whole_bytes() const { return whole_bytes_; }
  double wire_bytes_of_rank() const { return wire_bytes_; }

  // Milliseconds of one, of `count` launches one after another.
  double run(std::int64_t count) {
    const Clock::time_point begin = Clock::now();
    void* const in[] = {in_->address()};
    void* const out[] = {out_->address()};
    for (std::int64_t i = 0; i < count; ++i) kernel_->launch({in, out, nullptr});
    kernel_->wait();
    device_.synchronize();
    const std::chrono::duration<double, std::milli> elapsed = Clock::now() - begin;
    return elapsed.count() / static_cast<double>(count);
  }

  std::int64_t wrong_elements() const {
    const HostTensor values = out_->read(result_);
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(result_.dtype));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < result_.elements(); ++i)
      wrong += load_element(result_.dtype, values.data.data() + i * element_bytes) == expected(i) ? 0 : 1;
    return wrong;
  }

 private:
  double expected(std::int64_t i) const {
    if (op_ == Op::collective_broadcast) return operand_of(0, i);
    if (op_ == Op::all_gather) return operand_of(i / operand_.elements(), i % operand_.elements());
    const std::int64_t element = op_ == Op::reduce_scatter ? group_.rank() * result_.elements() + i : i;
    double sum = 0;
    for (std::int64_t rank = 0; rank < group_.ranks(); ++rank) sum += operand_of(rank, element);
    return sum;
  }

  Device& device_;
  const ProcessGroup& group_;
  Op op_;
  Graph graph_;
  TensorType operand_, result_;
  std::int64_t whole_bytes_ = 0;
  double wire_bytes_ = 0;
  std::optional<DeviceBuffer> in_, out_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

CollectiveTimes measure_collective(Device& device, Communicator& communicator, ProcessGroup& group,
                                   const CollectiveSetup& setup, const StopPoint& stop_point) {
  Collective collective(device, communicator, group, setup);
  if (setup.warmup > 0) collective.run(setup.warmup);
  std::vector<double> batches;
  for (int i = 0; i < kBatches; ++i) {
    if (stop_point) stop_point();
    group.barrier();
    batches.push_back(collective.run(setup.iterations));
  }
  const std::string mine = fmt::format("{} {}", upper_median(batches), collective.wrong_elements());
  CollectiveTimes times;
  times.bytes = collective.whole_bytes();
  for (const std::string& text : group.all_gather(mine, "times of a collective")) {
    times.ms = std::max(times.ms, std::stod(text));
    times.wrong_elements += std::stoll(text.substr(text.find(' ')));
  }
  times.algorithm_bytes_per_second = static_cast<double>(times.bytes) / (times.ms / 1e3);
  times.bus_bytes_per_second = collective.wire_bytes_of_rank() / (times.ms / 1e3);
  return times;
}

}  // namespace ridgepoint
