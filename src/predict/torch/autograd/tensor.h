// A tensor of PyTorch without values: sizes, strides, dtype, the memory block that it shares with its views, and the
// node that computes its gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "memory/allocator.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/dtype.h"

namespace ridgepoint::torch {

class Node;

// A live block of an allocator; the last tensor that refers to it frees it.
class Storage {
 public:
  // Without bytes it has no block.
  Storage(Allocator& allocator, std::size_t bytes, MemoryCategory category)
      : allocator_(allocator), address_(bytes > 0 ? allocator.allocate(bytes, category, kNoNode) : nullptr) {}
  ~Storage() {
    if (address_ != nullptr) allocator_.free(address_);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

 private:
  Allocator& allocator_;
  void* address_;
};

using Sizes = std::vector<std::int64_t>;

class Tensor {
 public:
  std::shared_ptr<Storage> storage = nullptr;  // null: the tensor is undefined
  Sizes sizes = {};
  Sizes strides = {};  // in elements
  DType dtype = DType::fp32;
  std::shared_ptr<Node> node = nullptr;  // null: it needs no gradient
  bool is_view = false;                  // then PyTorch keeps the tensor that it was made of, beside its storage

  bool is_defined() const { return storage != nullptr; }
  bool needs_gradient() const { return node != nullptr; }
  std::int64_t elements() const;
  // Whether its elements fill a block in the order of the axes. Axes of size 1 do not count.
  bool is_contiguous() const;
  // The same in the order of any permutation of the axes.
  bool fills_a_block() const;

  // The same tensor without a node.
  Tensor detached() const;
  // Views of the same storage, without a node.
  Tensor transposed(int a, int b) const;
  Tensor expanded(const Sizes& to) const;    // axes of size 1 are repeated
  Tensor unsqueezed(int axis) const;         // with one more axis, of size 1
  Tensor narrowed(std::int64_t size) const;  // that many elements of the last axis
  Tensor sliced_in_two() const;              // every other element of the last axis
  Tensor selected(int axis) const;           // one element of the axis, which disappears
  Tensor selected_last() const { return selected(static_cast<int>(sizes.size()) - 1); }
  std::optional<Tensor> viewed_as(const Sizes& to) const;  // empty if the strides allow no view

 private:
  Tensor viewed() const;
};

// Row-major strides.
Sizes contiguous_strides(const Sizes& sizes);
Sizes with_last(Sizes sizes, std::int64_t last);  // another size of the last axis
std::int64_t elements_of(const Sizes& sizes);

// Called where forward ends.
using LossBegins = std::function<void(const Tensor& logits)>;

// A language model as a training script calls it.
class Module {
 public:
  virtual ~Module() = default;
  // In the order of module.parameters().
  virtual const std::vector<Tensor>& parameters() const = 0;
  // tokens int64 [B,S] -> logits [B,S,V]
  virtual Tensor forward(const Tensor& tokens) = 0;
  // The mean cross-entropy, a scalar.
  virtual Tensor loss(const Tensor& tokens, const Tensor& targets, const LossBegins& begin_loss) = 0;
};

class Functions;
// The model of docs/model.md.
std::unique_ptr<Module> make_transformer(const TransformerConfig& config, Functions& functions);

}  // namespace ridgepoint::torch
