// What a node of autograd keeps for backward, and activation checkpointing (torch/utils/checkpoint.py with
// use_reentrant=False): in a checkpoint nothing is kept; the first node that asks has the function run again.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "predict/torch/autograd/tensor.h"

namespace ridgepoint::torch {

// Ends the second run of a checkpoint's function, once all that was saved is there again.
struct StopRecomputation {};

class Checkpoint {
 public:
  // The first run: the place of one more saved tensor.
  std::size_t add() { return count_++; }
  // The second run: the next saved tensor. Throws StopRecomputation with the last one.
  void keep(const Tensor& tensor) {
    recomputed_.push_back(tensor);
    if (recomputed_.size() == count_) throw StopRecomputation();
  }
  // Gives away what was saved at the place.
  Tensor take(std::size_t place) {
    if (!has_run_again_) {
      has_run_again_ = true;
      run_again(*this);
    }
    return std::move(recomputed_[place]);
  }

  // Runs the function again; its saved tensors go to keep().
  std::function<void(Checkpoint&)> run_again;

 private:
  std::size_t count_ = 0;
  std::vector<Tensor> recomputed_;
  bool has_run_again_ = false;
};

class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& tensor) : tensor_(tensor.detached()), is_defined_(true) {}
  explicit Saved(std::shared_ptr<Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)), place_(checkpoint_->add()), is_defined_(true) {}

  // Whether the node saved something.
  bool is_defined() const { return is_defined_; }
  // For the node as it runs: undefined if it saved nothing. What a checkpoint has made again is given away.
  Tensor take() const { return checkpoint_ ? checkpoint_->take(place_) : tensor_; }

 private:
  Tensor tensor_;
  std::shared_ptr<Checkpoint> checkpoint_;
  std::size_t place_ = 0;
  bool is_defined_ = false;
};

}  // namespace ridgepoint::torch
