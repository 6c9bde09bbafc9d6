// Runs one kernel of a device on operands with chosen layouts, for comparison with loops written in the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "backends/cpu/device.h"
#include "core/integers.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/ops/ops.h"
#include "runtime/device/device.h"

namespace ridgepoint::testing {

inline std::shared_ptr<Device> cpu_with_threads(int threads) {
  DeviceOptions options;
  options.threads = threads;
  return make_cpu_device(options);
}

// A tensor in host memory with any layout, surrounded by storage that its layout does not reach.
struct Operand {
  TensorLayout layout;
  std::vector<std::byte> storage;
  std::int64_t offset = 0;  // of element (0,...,0), in elements

  void* address() { return storage.data() + static_cast<std::size_t>(offset) * size_bytes(layout.dtype); }
  double at(std::span<const std::int64_t> index) const {
    if (layout.immediate) return *layout.immediate;
    std::int64_t element = offset;
    for (std::size_t i = 0; i < index.size(); ++i) element += index[i] * layout.strides[i];
    return load_element(layout.dtype, storage.data() + static_cast<std::size_t>(element) * size_bytes(layout.dtype));
  }
  TensorType type() const { return {layout.dtype, layout.shape}; }
};

// The layout of an operand: dimensions are stored in the order of `storage_order`, each with `padding` unused elements
// after each step; `broadcast` ones have stride 0, `flipped` ones run backwards.
struct LayoutChoice {
  std::vector<int> storage_order = {};  // empty: the order of the shape
  std::vector<int> broadcast = {};
  std::vector<int> flipped = {};
  std::int64_t padding = 0;
};

inline bool has(const std::vector<int>& list, int item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

inline Operand make_operand(DType dtype, const Shape& shape, const LayoutChoice& choice = {}) {
  Operand operand;
  operand.layout = dense_layout({dtype, shape});
  std::vector<int> order = choice.storage_order;
  if (order.empty()) {
    order.resize(static_cast<std::size_t>(shape.rank()));
    std::iota(order.begin(), order.end(), 0);
  }
  std::int64_t stride = 1;
  std::int64_t last = 0;
  for (std::size_t i = order.size(); i-- > 0;) {
    const int axis = order[i];
    std::int64_t& own = operand.layout.strides[static_cast<std::size_t>(axis)];
    own = has(choice.broadcast, axis) ? 0 : stride;
    const std::int64_t reach = std::max<std::int64_t>(shape[axis] - 1, 0) * own;
    last += reach;
    if (has(choice.flipped, axis)) {
      operand.offset += reach;
      own = -own;
    }
    if (!has(choice.broadcast, axis)) stride = stride * std::max<std::int64_t>(shape[axis], 1) + choice.padding;
  }
  operand.storage.resize(static_cast<std::size_t>(last + 1 + choice.padding) * size_bytes(dtype));
  return operand;
}

inline void fill_random(Operand& operand, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const std::size_t bytes = size_bytes(operand.layout.dtype);
  for (std::size_t i = 0; i < operand.storage.size(); i += bytes) {
    store_element(operand.layout.dtype, operand.storage.data() + i, normal(random));
  }
}

inline Operand random_operand(DType dtype, const Shape& shape, std::mt19937& random, const LayoutChoice& choice = {}) {
  Operand operand = make_operand(dtype, shape, choice);
  fill_random(operand, random);
  return operand;
}

inline Operand immediate_operand(DType dtype, const Shape& shape, double value) {
  Operand operand;
  operand.layout = {dtype, shape, {}, value, is_integer(dtype) ? to_integer<std::int64_t>(value) : 0};
  return operand;
}

inline Operand index_operand(const Shape& shape, std::span<const std::int64_t> values) {
  Operand operand = make_operand(DType::int64, shape);
  if (!values.empty()) std::memcpy(operand.storage.data(), values.data(), values.size_bytes());
  return operand;
}

// The multi-index in `shape` of a row-major position.
inline std::vector<std::int64_t> unravel(const Shape& shape, std::int64_t element) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

// A kernel with one dense output.
class OneKernel {
 public:
  double at(std::int64_t element) const {
    return load_element(output.type.dtype,
                        output.data.data() + static_cast<std::size_t>(element) * size_bytes(output.type.dtype));
  }
  const Operand& operand(std::size_t i) const { return operands_[i]; }
  Kernel& kernel() { return *kernel_; }

  HostTensor output;

 protected:
  static constexpr std::byte kGuard{0x7f};  // 3e38 as a float, so that an unwritten element is far from any result
  static constexpr std::ptrdiff_t kGuardBytes = 64;

  OneKernel(Device& device, Op op, std::vector<Operand> operands, Attributes attributes)
      : operands_(std::move(operands)) {
    std::vector<Value> values;
    std::vector<TensorLayout> layouts;
    for (const Operand& operand : operands_) {
      values.push_back(input(graph_, std::to_string(values.size()), operand.type(), Role::data));
      layouts.push_back(operand.layout);
    }
    const Node& node = graph_.node(make_node(graph_, op, values, std::move(attributes)));
    output = HostTensor(graph_.type(node.outputs[0]));
    const std::array outputs = {dense_layout(output.type)};
    kernel_ = device.make_kernel({graph_, node, layouts, outputs});
  }

  // The memory ends in a guard, which must be as it was.
  void expect_guard(std::span<const std::byte> bytes, const char* what) const {
    EXPECT_TRUE(std::all_of(bytes.end() - kGuardBytes, bytes.end(), [](std::byte b) { return b == kGuard; }))
        << kernel_->name() << " wrote past " << what;
  }

  Graph graph_;
  std::vector<Operand> operands_;
  std::unique_ptr<Kernel> kernel_;
};

// On the host. The workspace is filled with a pattern and ends in a guard.
class KernelRun : public OneKernel {
 public:
  KernelRun(Device& device, Op op, std::vector<Operand> operands, Attributes attributes = {})
      : OneKernel(device, op, std::move(operands), std::move(attributes)) {
    workspace_.assign(kernel_->workspace_bytes() + kGuardBytes, kGuard);
  }

  void launch() {
    std::fill(output.data.begin(), output.data.end(), kGuard);
    std::vector<void*> inputs;
    for (Operand& operand : operands_) inputs.push_back(operand.layout.immediate ? nullptr : operand.address());
    void* result = output.data.data();
    kernel_->launch({inputs.data(), &result, workspace_.data()});
    expect_guard(workspace_, "its workspace");
  }

 private:
  std::vector<std::byte> workspace_;
};

// Any storage order of the batch dimensions and of the last two, padded or not, some batch dimensions broadcast.
inline LayoutChoice random_layout(const Shape& shape, std::mt19937& random) {
  const auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
  LayoutChoice choice;
  const int rank = shape.rank();
  choice.storage_order.resize(static_cast<std::size_t>(rank));
  std::iota(choice.storage_order.begin(), choice.storage_order.end(), 0);
  if (chance(0.5)) std::shuffle(choice.storage_order.begin(), choice.storage_order.end() - 1, random);
  if (chance(0.4)) {
    auto& order = choice.storage_order;
    std::swap(*std::find(order.begin(), order.end(), rank - 1), *std::find(order.begin(), order.end(), rank - 2));
  }
  for (int axis = 0; axis < rank - 2; ++axis) {
    if (chance(0.3)) choice.broadcast.push_back(axis);
  }
  choice.padding = chance(0.3) ? 3 : 0;
  return choice;
}

// The shapes of two batches of matrices with a product, of sizes up to these.
inline std::pair<Shape, Shape> random_factors(std::mt19937& random, std::int64_t m, std::int64_t k, std::int64_t n) {
  const auto size_up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  std::vector<Dim> a;
  const int batch_rank = std::uniform_int_distribution<int>(0, kMaxRank - 2)(random);
  for (int axis = 0; axis < batch_rank; ++axis) a.emplace_back(size_up_to(3));
  std::vector<Dim> b = a;
  const std::int64_t inner = size_up_to(k);
  a.insert(a.end(), {size_up_to(m), inner});
  b.insert(b.end(), {inner, size_up_to(n)});
  return {Shape(a), Shape(b)};
}

}  // namespace ridgepoint::testing
