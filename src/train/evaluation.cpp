#include "train/evaluation.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>

#include "train/changed_workload.h"

namespace ridgepoint::train {
namespace {

// The loss of a training step is the only result of the forward graph.
RunConfig evaluating(RunConfig config) {
  config.workload = std::make_shared<ChangedWorkload>(config.workload, [](Graph& graph) {
    const Value loss = *graph.find_loss();
    graph.erase_outputs([](const Output&) { return true; });
    graph.add_output("loss", loss);
  });
  config.compile.mode = Mode::forward;
  config.compile.accumulate = 1;
  config.compile.keep = {};
  return config;
}

}  // namespace

std::int64_t rows_of(const Program& program) {
  const Graph& graph = program.graph();
  return graph.type(*graph.find_input("inputs")).shape[0];
}

TokenBatch read_batch(const Program& program, const Sequences& data, std::int64_t first, std::int64_t rank) {
  const Graph& graph = program.graph();
  const TensorType type = graph.type(*graph.find_input("inputs"));
  const std::int64_t rows = type.shape[0];
  const auto context = static_cast<std::size_t>(type.shape[1]);
  TokenBatch batch{first, HostTensor(type), HostTensor(type)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row) * context;
    data.read(first + rank * rows + row, batch.inputs.as<std::int64_t>().subspan(at, context),
              batch.targets.as<std::int64_t>().subspan(at, context));
  }
  return batch;
}

void write_batch(Program& program, const TokenBatch& batch) {
  program.write_input("inputs", batch.inputs);
  program.write_input("targets", batch.targets);
}

Evaluation::Evaluation(const RunConfig& config, const StepWatcher& watch, const Sequences& data, std::int64_t batches)
    : config_(evaluating(config)),
      record_(describe_run(config_, Experiment::bench)),
      session_(config_, watch, record_),
      data_(data),
      program_(session_.ready_program()) {
  const std::int64_t rows = rows_of(program_) * session_.parallel().data;
  batches_ = std::clamp<std::int64_t>(data.count() / rows, 1, batches);
}

double Evaluation::loss(const Program& trained) {
  for (const ParameterDeclaration& parameter : parameters_of(program_.graph()))
    program_.write_input(parameter.name, trained.read_input(parameter.name));
  double sum = 0;
  const std::int64_t ranks = session_.parallel().data;
  for (std::int64_t batch = 0; batch < batches_; ++batch) {
    write_batch(program_, read_batch(program_, data_, batch * ranks * rows_of(program_), session_.parallel().rank));
    program_.run();
    program_.synchronize();
    sum += convert(program_.read_output("loss"), DType::fp64).as<double>()[0];
  }
  ProcessGroup* const group = config_.group.get();
  if (group == nullptr) return sum / static_cast<double>(batches_);
  double all = 0;
  for (const std::string& text : group->all_gather(std::to_string(std::bit_cast<std::uint64_t>(sum)), "losses"))
    all += std::bit_cast<double>(static_cast<std::uint64_t>(std::stoull(text)));
  return all / static_cast<double>(batches_ * ranks);
}

}  // namespace ridgepoint::train
