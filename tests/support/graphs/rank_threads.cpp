#include "support/graphs/rank_threads.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "ridgepoint/core/error.h"
#include "ridgepoint/core/shape.h"

namespace ridgepoint::testing {
namespace {

class ThreadKernel : public Kernel {
 public:
  ThreadKernel(RankThreads& ranks, std::size_t rank, const KernelSpec& spec)
      : ranks_(ranks), rank_(rank), node_(spec.node), name_(ridgepoint::name(spec.node.op)) {
    first_sent_ = spec.inputs.size() - spec.outputs.size();
    for (const TensorLayout& layout : spec.inputs.subspan(first_sent_)) types_.push_back({layout.dtype, layout.shape});
  }

  std::string_view name() const override { return name_; }

  void launch(const LaunchArguments& arguments) override {
    inputs_.assign(arguments.inputs + first_sent_, arguments.inputs + first_sent_ + types_.size());
    outputs_.assign(arguments.outputs, arguments.outputs + types_.size());
    is_running_ = true;
    if (ranks_.runs() == CollectiveRuns::in_launch) wait();
  }

  void wait() override {
    if (!std::exchange(is_running_, false)) return;
    std::vector<HostTensor> operands;
    for (std::size_t i = 0; i < types_.size(); ++i) {
      HostTensor& operand = operands.emplace_back(types_[i]);
      if (!operand.data.empty()) std::memcpy(operand.data.data(), inputs_[i], operand.data.size());
    }
    const std::vector<HostTensor> results = ranks_.exchange(rank_, node_, std::move(operands));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].data.empty()) std::memcpy(outputs_[i], results[i].data.data(), results[i].data.size());
    }
  }

 private:
  RankThreads& ranks_;
  std::size_t rank_;
  Node node_;
  std::string name_;
  std::size_t first_sent_ = 0;  // of the operands (ops/collectives.h)
  std::vector<TensorType> types_;
  std::vector<void*> inputs_, outputs_;
  bool is_running_ = false;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(RankThreads& ranks, std::size_t rank) : ranks_(ranks), rank_(rank) {}
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<ThreadKernel>(ranks_, rank_, spec);
  }
  std::string problem_of_ranks(const std::string& mine, std::string_view what) override {
    return ridgepoint::problem_of_ranks(ranks_.process_group(rank_).get(), mine, what);
  }

 private:
  RankThreads& ranks_;
  std::size_t rank_;
};

class ThreadGroup : public ProcessGroup {
 public:
  ThreadGroup(RankThreads& threads, std::size_t rank) : threads_(threads), rank_(rank) {}

  int rank() const override { return static_cast<int>(rank_); }
  int ranks() const override { return static_cast<int>(threads_.ranks()); }
  int rank_on_host() const override { return rank(); }
  int ranks_on_host() const override { return ranks(); }
  double collective_limit_seconds() const override { return 60; }
  std::shared_ptr<Communicator> make_host_communicator() override {
    return std::make_shared<ThreadCommunicator>(threads_, rank_);
  }
  void abort(int exit_code) override { std::exit(exit_code); }

 protected:
  std::vector<std::string> exchange(const std::string& mine, std::string_view, TimeLimit) override {
    return threads_.exchange(rank_, mine);
  }

 private:
  RankThreads& threads_;
  std::size_t rank_;
};

HostTensor sum_of(std::span<const HostTensor> operands) {
  HostTensor sum(operands[0].type);
  const std::size_t element_bytes = size_bytes(sum.type.dtype);
  for (std::size_t offset = 0; offset < sum.data.size(); offset += element_bytes) {
    double value = 0;
    for (const HostTensor& operand : operands) value += load_element(sum.type.dtype, operand.data.data() + offset);
    store_element(sum.type.dtype, sum.data.data() + offset, value);
  }
  return sum;
}

std::vector<HostTensor> parts_of(const HostTensor& whole, std::size_t count) {
  const std::int64_t elements = whole.type.elements() / static_cast<std::int64_t>(count);
  std::vector<HostTensor> parts(count, HostTensor({whole.type.dtype, Shape{elements}}));
  for (std::size_t rank = 0; rank < count; ++rank) {
    const std::size_t bytes = parts[rank].data.size();
    if (bytes > 0) std::memcpy(parts[rank].data.data(), whole.data.data() + rank * bytes, bytes);
  }
  return parts;
}

HostTensor joined(std::span<const HostTensor> operands) {
  const TensorType& type = operands[0].type;
  HostTensor whole({type.dtype, with_size(type.shape, 0, type.shape[0] * static_cast<std::int64_t>(operands.size()))});
  for (std::size_t rank = 0; rank < operands.size(); ++rank) {
    const std::size_t bytes = operands[rank].data.size();
    if (bytes > 0) std::memcpy(whole.data.data() + rank * bytes, operands[rank].data.data(), bytes);
  }
  return whole;
}

}  // namespace

std::vector<HostTensor> collective_results(Op op, std::span<const HostTensor> operands, std::size_t root) {
  switch (op) {
    case Op::all_reduce: return std::vector(operands.size(), sum_of(operands));
    case Op::reduce_scatter: return parts_of(sum_of(operands), operands.size());
    case Op::all_gather: return std::vector(operands.size(), joined(operands));
    case Op::collective_broadcast: return std::vector(operands.size(), operands[root]);
    default: throw Error(std::string(name(op)) + " is no collective");
  }
}

RankThreads::RankThreads(std::size_t ranks, CollectiveRuns runs)
    : ranks_(ranks), runs_(runs), barrier_(static_cast<std::ptrdiff_t>(ranks)), operands_(ranks), texts_(ranks) {}

std::shared_ptr<ProcessGroup> RankThreads::process_group(std::size_t rank) {
  return std::make_shared<ThreadGroup>(*this, rank);
}

void RankThreads::run(const Body& body) {
  std::vector<std::exception_ptr> failures(ranks_);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, std::make_shared<ThreadCommunicator>(*this, rank));
      } catch (...) {
        failures[rank] = std::current_exception();
        barrier_.arrive_and_drop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::vector<HostTensor> RankThreads::exchange(std::size_t rank, const Node& node, std::vector<HostTensor> operands) {
  operands_[rank] = std::move(operands);
  barrier_.arrive_and_wait();
  const auto root = static_cast<std::size_t>(node.attributes.get_or<std::int64_t>("root", 0));
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < operands_[rank].size(); ++i) {
    std::vector<HostTensor> of_all;
    for (const std::vector<HostTensor>& of_rank : operands_) of_all.push_back(of_rank[i]);
    results.push_back(collective_results(node.op, of_all, root)[rank]);
  }
  barrier_.arrive_and_wait();
  return results;
}

std::vector<std::string> RankThreads::exchange(std::size_t rank, std::string text) {
  texts_[rank] = std::move(text);
  barrier_.arrive_and_wait();
  std::vector<std::string> all = texts_;
  barrier_.arrive_and_wait();
  return all;
}

}  // namespace ridgepoint::testing
