#include "predict/torch/autograd/autograd.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

namespace ridgepoint::torch {
namespace {

// Strides without gaps that keep the axes in the order in which `x` has them in memory. Repeated axes have no order.
Sizes ordered_strides(const Sizes& sizes, const Tensor& x) {
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (x.sizes[i] > 1 && x.strides[i] == 0) return contiguous_strides(sizes);
    if (sizes[i] > 1) axes.push_back(i);
  }
  std::ranges::stable_sort(axes, std::greater(), [&](std::size_t i) { return x.strides[i]; });
  Sizes strides(sizes.size(), 1);
  std::int64_t next = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    strides[axes[i]] = next;
    next *= sizes[axes[i]];
  }
  return strides;
}

struct IsLater {
  static std::pair<bool, std::uint64_t> priority(const Node& node) { return {node.is_parameter, node.sequence}; }
  bool operator()(const Node* a, const Node* b) const { return priority(*a) < priority(*b); }
};

class Engine {
 public:
  explicit Engine(Kernels& kernels) : kernels_(kernels) {}

  void run(const Tensor& loss) {
    count_readers(loss.node.get());
    inputs_[loss.node.get()] = kernels_.empty(loss.sizes, loss.dtype);
    ready_.push(loss.node.get());
    while (!ready_.empty()) {
      Node* const node = ready_.top();
      ready_.pop();
      evaluate(*node);
    }
  }

 private:
  void count_readers(Node* root) {
    std::vector<Node*> open = {root};
    std::unordered_map<Node*, bool> seen = {{root, true}};
    while (!open.empty()) {
      const Node* const node = open.back();
      open.pop_back();
      for (const std::shared_ptr<Node>& next : node->next) {
        if (!next) continue;
        ++readers_[next.get()];
        if (seen.emplace(next.get(), true).second) open.push_back(next.get());
      }
    }
  }

  void evaluate(Node& node) {
    std::vector<Tensor> gradients = call(node);
    node.backward = nullptr;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      Node* const next = node.next[i].get();
      if (next == nullptr) continue;
      if (gradients[i].is_defined()) add(*next, std::move(gradients[i]));
      if (--readers_[next] == 0) ready_.push(next);
    }
  }

  // The node's input is alive until its results have the shapes and dtypes that are expected.
  std::vector<Tensor> call(Node& node) {
    Tensor input = std::move(inputs_[&node]);
    inputs_.erase(&node);
    if (node.is_parameter) {
      node.gradient = std::move(input);
      return {};
    }
    std::vector<Tensor> gradients = node.backward(input);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Node* const next = node.next[i].get();
      if (next == nullptr || !gradients[i].is_defined()) continue;
      gradients[i] = kernels_.sum_to(gradients[i], next->sizes);
      gradients[i] = kernels_.cast(gradients[i], next->dtype);
    }
    return gradients;
  }

  void add(const Node& node, Tensor gradient) {
    Tensor& sum = inputs_[&node];
    if (!sum.is_defined()) {
      sum = std::move(gradient);
    } else if (sum.is_view || sum.storage.use_count() > 1 || !sum.fills_a_block()) {
      sum = kernels_.elementwise(sum, gradient);
    }
  }

  Kernels& kernels_;
  std::unordered_map<const Node*, Tensor> inputs_;  // the sums of gradients so far
  std::unordered_map<const Node*, int> readers_;    // nodes that have yet to add to it
  std::priority_queue<Node*, std::vector<Node*>, IsLater> ready_;
};

}  // namespace

Tensor Kernels::empty(const Sizes& sizes, DType dtype) const {
  const auto bytes = static_cast<std::size_t>(elements_of(sizes)) * size_bytes(dtype);
  return {std::make_shared<Storage>(allocator_, bytes, category_), sizes, contiguous_strides(sizes), dtype};
}

Tensor Kernels::empty_like(const Tensor& like, DType dtype) const {
  Tensor made = empty(like.sizes, dtype);
  if (like.fills_a_block()) made.strides = like.strides;
  return made;
}

Tensor Kernels::reshaped(const Tensor& x, const Sizes& sizes) const {
  if (std::optional<Tensor> view = x.viewed_as(sizes)) return *std::move(view);
  return empty(sizes, x.dtype);
}

Tensor Kernels::cast(const Tensor& x, DType dtype) const {
  return x.dtype == dtype ? x.detached() : empty_like(x, dtype);
}

Tensor Kernels::sum_to(const Tensor& x, const Sizes& sizes) const {
  return x.sizes == sizes ? x.detached() : empty(sizes, x.dtype);
}

Tensor Kernels::elementwise(const Tensor& a, const Tensor& b) const {
  const Tensor& longer = a.sizes.size() >= b.sizes.size() ? a : b;
  const Tensor& shorter = &longer == &a ? b : a;
  Sizes sizes = longer.sizes;
  const std::size_t added = sizes.size() - shorter.sizes.size();
  for (std::size_t i = 0; i < shorter.sizes.size(); ++i)
    sizes[added + i] = std::max(sizes[added + i], shorter.sizes[i]);
  Tensor result = empty(sizes, widest(a.dtype, b.dtype));
  const Tensor& first = a.sizes == sizes ? a : b;
  if (first.sizes == sizes) result.strides = ordered_strides(sizes, first);
  return result;
}

Tensor Kernels::like(const Tensor& x) const {
  Tensor result = empty(x.sizes, x.dtype);
  result.strides = ordered_strides(x.sizes, x);
  return result;
}

Tensor Kernels::product(const Sizes& sizes, DType dtype) {
  Tensor result = empty(sizes, dtype);
  std::shared_ptr<Storage>& workspace = workspaces_[static_cast<std::size_t>(thread_)];
  if (!workspace) workspace = std::make_shared<Storage>(allocator_, workspace_bytes_, MemoryCategory::workspace);
  return result;
}

// A chain of nodes is released in a loop: it may be longer than the call stack is deep.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> open = std::move(next);
  while (!open.empty()) {
    const std::shared_ptr<Node> node = std::move(open.back());
    open.pop_back();
    if (!node || node.use_count() > 1) continue;
    for (std::shared_ptr<Node>& more : node->next) open.push_back(std::move(more));
    node->next.clear();
  }
}

void run_backward(const Tensor& loss, Kernels& kernels) { Engine(kernels).run(loss); }

}  // namespace ridgepoint::torch
