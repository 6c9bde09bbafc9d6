#include "support/graphs/random_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"

namespace ridgepoint::testing {
namespace {

constexpr std::int64_t kIndexBound = 3;  // exclusive bound of indices
constexpr double kInputBound = 4.0;      // bound of inputs and of their updates
constexpr double kSmoothBound = 64.0;    // bound of values that are not integers, for small errors

// Integers up to this are exact in the dtype and in the accumulators of its kernels.
double largest_whole(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 256;
    case DType::fp16: return 2048;
    case DType::boolean: return 1;
    default: return 1 << 20;
  }
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {
    constexpr std::array<std::int64_t, 6> kSizes = {2, 3, 4, 5, 8, 17};
    for (std::int64_t& size : sizes_) size = kSizes[static_cast<std::size_t>(pick(kSizes.size()))];
  }

  Graph run() {
    const int inputs = 3 + pick(4);
    for (int i = 0; i < inputs; ++i) add_input(i);
    const int nodes = 4 + pick(24);
    for (int tries = 0, made = 0; made < nodes && tries < 20 * nodes; ++tries) {
      try {
        made += add_node() ? 1 : 0;
      } catch (const Error&) {  // the operands do not fit the op
      }
    }
    if (pick(3) == 0) add_gradient();
    if (pick(4) == 0) add_optimizer();
    add_updates();
    const int outputs = 1 + pick(4);
    for (int i = 0; i < outputs; ++i) graph_.add_output("y" + std::to_string(i), any().value);
    return std::move(graph_);
  }

 private:
  struct Known {
    Value value;
    bool is_whole = true;  // every element is an integer
    double bound = 0;      // of the absolute values
    bool is_index = false;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  const TensorType& type(const Known& known) const { return graph_.type(known.value); }
  bool is_float(const Known& known) const { return is_floating(type(known).dtype); }

  // Prefers later values, so that graphs become deep.
  Known any() {
    const int n = static_cast<int>(pool_.size());
    return pool_[static_cast<std::size_t>(std::max(pick(n), pick(n)))];
  }
  template <typename Condition>
  Known any_that(Condition condition) {
    for (int tries = 0; tries < 20; ++tries) {
      const Known known = any();
      if (condition(known)) return known;
    }
    throw Error("no such value");
  }
  Known any_float() {
    return any_that([&](const Known& known) { return is_float(known); });
  }
  Known any_whole() {
    return any_that([](const Known& known) { return known.is_whole; });
  }
  Known any_like(const Known& other) {
    return any_that([&](const Known& known) { return type(known).dtype == type(other).dtype; });
  }

  bool keep(Value value, bool is_whole, double bound, bool is_index = false) {
    if (bound > (is_whole ? largest_whole(graph_.type(value).dtype) : kSmoothBound)) return false;
    if (graph_.type(value).elements() > 4096) return false;
    pool_.push_back({value, is_whole, bound, is_index});
    return true;
  }

  // Uses two sizes per graph, so that operands often have equal shapes.
  Shape random_shape() {
    constexpr std::array kRanks = {0, 1, 1, 2, 2, 2, 3, 4};
    std::vector<Dim> dims(static_cast<std::size_t>(kRanks[static_cast<std::size_t>(pick(kRanks.size()))]));
    for (Dim& dim : dims) dim = Dim(pick(8) == 0 ? 1 : sizes_[static_cast<std::size_t>(pick(2))]);
    return Shape(dims);
  }

  void add_input(int number) {
    constexpr std::array kRoles = {Role::state, Role::parameter, Role::state, Role::data};
    constexpr std::array kTypes = {DType::fp32,  DType::fp32,  DType::fp32,  DType::bf16,   DType::fp16,
                                   DType::int64, DType::int64, DType::int32, DType::boolean};
    // Several inputs have one type, so that they can update one another.
    const bool again = number > 0 && pick(2) == 0;
    const TensorType made =
        again ? type(pool_.back()) : TensorType{kTypes[static_cast<std::size_t>(pick(kTypes.size()))], random_shape()};
    const Value value = input(graph_, "x" + std::to_string(number), made, kRoles[static_cast<std::size_t>(pick(4))]);
    const bool is_whole = !is_floating(made.dtype) || pick(2) == 0;
    pool_.push_back({value, is_whole, made.dtype == DType::boolean ? 1 : kInputBound, made.dtype == DType::int64});
  }

  bool add_node() {
    switch (pick(18)) {
      case 0:
      case 1:
      case 2: return add_view();
      case 3: return add_constant();
      case 4:
      case 5: return add_unary();
      case 6:
      case 7:
      case 8: return add_binary();
      case 9: return add_choice();
      case 10: return add_cast();
      case 11: return add_reduction();
      case 12: return add_product();
      case 13:
      case 14: return add_gather();
      default: return add_composite();
    }
  }

  bool add_view() {
    const Known x = any();
    const Shape& shape = type(x).shape;
    const auto kept = [&](Value value) { return keep(value, x.is_whole, x.bound, x.is_index); };
    switch (pick(4)) {
      case 0: {
        std::vector<std::int64_t> order(static_cast<std::size_t>(shape.rank()));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        return kept(transpose(graph_, x.value, order));
      }
      case 1: return shape.rank() > 0 && kept(flip(graph_, x.value, pick(shape.rank())));
      case 2: {
        std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
        for (Dim& dim : dims) dim = dim.size == 1 ? Dim(1 + pick(3)) : dim;
        if (dims.size() < 4 && pick(2) == 0) dims.insert(dims.begin(), Dim(1 + pick(3)));
        return kept(broadcast(graph_, x.value, Shape(dims)));
      }
      default: {
        const std::int64_t n = shape.elements();
        const std::int64_t columns = n % 4 == 0 ? 4 : (n % 3 == 0 ? 3 : 1);
        if (n == 0) return false;
        return kept(reshape(graph_, x.value, pick(2) == 0 ? Shape{n} : Shape{n / columns, columns}));
      }
    }
  }

  bool add_constant() {
    const Known like = any();
    if (type(like).dtype == DType::boolean) return false;
    const double value = pick(5) - 2;
    const Value made = constant(graph_, value, type(like).dtype);
    keep(made, true, std::fabs(value));
    return keep(broadcast(graph_, made, type(like).shape), true, std::fabs(value));
  }

  bool add_unary() {
    const Known x = any_float();
    const auto smooth = [&](Value value, double bound) { return keep(value, false, bound); };
    const auto positive = [&] { return shift(graph_, mul(graph_, x.value, x.value), 1.0); };
    switch (pick(12)) {
      case 0: return keep(neg(graph_, x.value), x.is_whole, x.bound);
      case 1: return keep(relu(graph_, x.value), x.is_whole, x.bound);
      case 2: return keep(copy(graph_, x.value), x.is_whole, x.bound);
      case 3: return keep(detach(graph_, x.value), x.is_whole, x.bound);
      case 4: return smooth(tanh(graph_, x.value), 1);
      case 5: return smooth(sigmoid(graph_, x.value), 1);
      case 6: return smooth(silu(graph_, x.value), x.bound);
      case 7: return x.bound <= kInputBound && smooth(exp(graph_, x.value), 55);
      case 8: return x.bound <= kInputBound && smooth(expm1(graph_, x.value), 55);
      case 9: return x.bound <= 8 && smooth(log(graph_, positive()), 5);
      case 10: return x.bound <= 8 && smooth(sqrt(graph_, positive()), 9);
      default: return x.bound <= 8 && smooth(rsqrt(graph_, positive()), 1);
    }
  }

  bool add_binary() {
    const Known a = any_float();
    const Known b = any_like(a);
    const bool whole = a.is_whole && b.is_whole;
    switch (pick(6)) {
      case 0: return keep(add(graph_, a.value, b.value), whole, a.bound + b.bound);
      case 1: return keep(sub(graph_, a.value, b.value), whole, a.bound + b.bound);
      case 2: return keep(mul(graph_, a.value, b.value), whole, a.bound * b.bound);
      case 3: return keep(maximum(graph_, a.value, b.value), whole, std::max(a.bound, b.bound));
      case 4: return keep(minimum(graph_, a.value, b.value), whole, std::max(a.bound, b.bound));
      default:
        if (b.bound > 8) return false;
        return keep(div(graph_, a.value, shift(graph_, mul(graph_, b.value, b.value), 1.0)), false, a.bound);
    }
  }

  bool add_choice() {
    const Known a = any_whole();
    const Known b = any_that([&](const Known& known) { return known.is_whole && type(known).dtype == type(a).dtype; });
    const Value condition = pick(3) == 0   ? less(graph_, a.value, b.value)
                            : pick(2) == 0 ? less_equal(graph_, a.value, b.value)
                                           : equal(graph_, a.value, b.value);
    keep(condition, true, 1);
    const Known first = any();
    const Known second = any_like(first);
    return keep(where(graph_, condition, first.value, second.value), first.is_whole && second.is_whole,
                std::max(first.bound, second.bound), first.is_index && second.is_index);
  }

  bool add_cast() {
    const DType dtype = kAllDTypes[static_cast<std::size_t>(pick(7))];
    const Known x = is_floating(dtype) ? any() : any_whole();
    const double bound = dtype == DType::boolean ? 1 : x.bound;
    return keep(cast(graph_, x.value, dtype), x.is_whole, bound);
  }

  bool add_reduction() {
    const Known x = any_float();
    std::vector<std::int64_t> axes;
    double count = 1;
    for (int axis = 0; axis < type(x).shape.rank(); ++axis) {
      if (pick(2) != 0) continue;
      axes.push_back(axis);
      count *= static_cast<double>(type(x).shape[axis]);
    }
    const bool keep_dims = pick(2) == 0;
    if (pick(2) == 0) return keep(reduce_sum(graph_, x.value, axes, keep_dims), x.is_whole, x.bound * count);
    return keep(reduce_max(graph_, x.value, axes, keep_dims), x.is_whole, x.bound);
  }

  bool add_product() {
    const Known a = any_that([&](const Known& known) { return is_float(known) && type(known).shape.rank() >= 2; });
    const Known b = any_like(a);
    const double terms = static_cast<double>(type(a).shape[-1]);
    const bool whole = a.is_whole && b.is_whole;
    if (type(b).shape.rank() >= 2 && pick(2) == 0) {
      return keep(matmul(graph_, a.value, b.value), whole, a.bound * b.bound * terms);
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>(type(b).shape.rank()));
    std::iota(order.begin(), order.end(), 0);
    if (order.size() >= 2) std::swap(order.end()[-1], order.end()[-2]);
    return keep(matmul(graph_, a.value, transpose(graph_, b.value, order)), whole, a.bound * b.bound * terms);
  }

  bool add_composite() {
    const Known x = any_float();
    const TensorType& t = type(x);
    if (t.shape.rank() == 0) return false;
    const auto row = [&] {
      return any_that([&](const Known& known) {
        return type(known) == TensorType{t.dtype, Shape{t.shape.dim(-1)}} && known.bound <= 8;
      });
    };
    // A small epsilon would scale rows near zero to large values.
    constexpr double kEpsilon = 0.5;
    switch (pick(6)) {
      case 0: return keep(softmax(graph_, x.value), false, 1);
      case 1: return keep(rms_norm(graph_, x.value, row().value, kEpsilon).first, false, 40);
      case 2: {
        const Known weight = row();
        return keep(layer_norm(graph_, x.value, weight.value, row().value, kEpsilon)[0], false, 48);
      }
      case 3: return keep(causal_mask(graph_, x.value, 0.0), x.is_whole, x.bound);
      case 4: {
        const Known k = any_that([&](const Known& known) { return type(known) == t && known.bound <= 8; });
        AttentionForm form{.scale = 0.25, .causal = pick(2) == 0, .soft_cap = pick(3) == 0 ? 2.0 : 0.0};
        if (form.causal) form.window = pick(4);
        return x.bound <= 8 && keep(attention(graph_, x.value, k.value, x.value, form).first, false, 8);
      }
      default: {
        const DType dtype = t.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
        if (t.shape.rank() < 2) return false;
        const Shape table{t.shape.dim(-2), Dim(t.shape[-1] / 2)};
        const auto angles = [&] { return broadcast(graph_, constant(graph_, pick(3) - 1, dtype), table); };
        const Value cosines = angles();
        return keep(rope(graph_, x.value, cosines, angles(), t.shape.rank() - 2, pick(2) == 0), x.is_whole,
                    2 * x.bound);
      }
    }
  }

  bool add_gather() {
    const Known x = any_float();
    const Known indices = any_that([](const Known& known) { return known.is_index; });
    const Shape& shape = type(x).shape;
    switch (pick(4)) {
      case 0:
        if (shape.rank() != 2 || shape[0] < kIndexBound) return false;
        return keep(embedding(graph_, x.value, indices.value), x.is_whole, x.bound);
      case 1:
        if (shape.rank() != 2 || shape[1] < kIndexBound || x.bound > 8) return false;
        return keep(cross_entropy(graph_, x.value, indices.value).first, false, 20);
      case 2: {
        const Value sum = embedding_backward(graph_, x.value, indices.value, kIndexBound);
        return keep(embedding_backward_add(graph_, x.value, indices.value, sum), x.is_whole,
                    2 * x.bound * static_cast<double>(type(indices).elements()));
      }
      default:
        return keep(embedding_backward(graph_, x.value, indices.value, kIndexBound + pick(3)), x.is_whole,
                    x.bound * static_cast<double>(type(indices).elements()));
    }
  }

  // Only in fp32 graphs: in a low type, two values may round to one maximum and share its gradient.
  void add_gradient() {
    std::vector<Value> inputs;
    for (const NodeId id : graph_.inputs()) {
      const Value value = graph_.node(id).outputs[0];
      if (graph_.type(value).dtype == DType::fp32) inputs.push_back(value);
    }
    const auto low = [&](NodeId id) {
      return std::ranges::any_of(graph_.node(id).outputs,
                                 [&](Value value) { return is_low(graph_.type(value).dtype); });
    };
    if (inputs.empty() || std::ranges::any_of(graph_.order(), low)) return;
    try {
      const Known y =
          any_that([&](const Known& known) { return type(known).dtype == DType::fp32 && known.bound <= 8; });
      const Known by = any_that([&](const Known& known) { return type(known) == type(y) && known.bound <= 8; });
      for (const Value gradient : differentiate(graph_, y.value, by.value, inputs))
        pool_.push_back({gradient, false, kSmoothBound + 1});
    } catch (const Error&) {  // the pool has no suitable value
    }
  }

  void add_optimizer() {
    try {
      const Known parameter = any_that([&](const Known& known) { return type(known).dtype == DType::fp32; });
      const auto like = [&] { return any_that([&](const Known& known) { return type(known) == type(parameter); }); };
      const Known gradient = like();
      const Known moment = like();
      const Known second = like();
      const Value square = second.bound <= 2 ? mul(graph_, second.value, second.value) : sigmoid(graph_, second.value);
      const Value step = shift(graph_, constant(graph_, 2.0, DType::fp32), 1.0);
      const std::vector<Value> made = optimizer_step(
          graph_, {.hyperparameters = {{"epsilon", 0.5}}},
          {.step = step, .parameter = parameter.value, .gradient = gradient.value, .states = {moment.value, square}});
      const double first_bound = std::max(moment.bound, gradient.bound);
      pool_.push_back({made[0], false, parameter.bound + 0.02 * first_bound});
      pool_.push_back({made[1], false, first_bound});
      pool_.push_back({made[2], false, 4 + 0.001 * gradient.bound * gradient.bound});
    } catch (const Error&) {  // the pool has no suitable value
    }
  }

  void add_updates() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Known target = pool_[i];  // inputs come first in the pool
      const Node& node = graph_.producer_node(target.value);
      if (node.attributes.get<std::string>("role") == name(Role::data) || pick(4) == 0) continue;
      try {
        const Known value = any_that([&](const Known& known) {
          return type(known) == type(target) && known.is_index == target.is_index &&
                 known.is_whole >= target.is_whole && known.bound <= kInputBound;
        });
        graph_.add_update(target.value, value.value);
      } catch (const Error&) {  // the pool has no suitable value
      }
    }
  }

  std::mt19937_64 random_;
  std::array<std::int64_t, 2> sizes_{};
  Graph graph_;
  std::vector<Known> pool_;
};

}  // namespace

Graph random_graph(std::uint64_t seed) { return Generator(seed).run(); }

Tensors random_whole_inputs(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensors tensors;
  for (const NodeId id : graph.inputs()) {
    HostTensor tensor(graph.type(graph.node(id).outputs[0]));
    const DType dtype = tensor.type.dtype;
    for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.type.elements()); ++i) {
      const auto drawn = static_cast<double>(random() % 7);
      const double value = dtype == DType::int64 ? std::fmod(drawn, kIndexBound) : drawn - 3;
      store_element(dtype, tensor.data.data() + i * size_bytes(dtype), value);
    }
    tensors.emplace(graph.node(id).attributes.get<std::string>("name"), std::move(tensor));
  }
  return tensors;
}

}  // namespace ridgepoint::testing
