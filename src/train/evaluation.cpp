#include "train/evaluation.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>

namespace ridgepoint::train {
namespace {

// The loss of a training step is the only result of the forward graph.
void leave_loss(Graph& graph) {
  const Value loss = *graph.find_loss();
  graph.erase_outputs([](const Output&) { return true; });
  graph.add_output("loss", loss);
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
    : forward_(config, leave_loss, watch), data_(data) {
  const std::int64_t rows = rows_of(forward_.program()) * forward_.parallel().data;
  batches_ = std::clamp<std::int64_t>(data.count() / rows, 1, batches);
}

double Evaluation::loss(const Program& trained) {
  Program& program = forward_.program();
  std::set<std::string> packed;
  for (const StatePart& part : program.state_parts()) {
    if (!part.is_packed) continue;
    std::vector<std::byte> bytes(part.bytes());
    trained.read_part(part, bytes);
    program.write_part(part, bytes);
    packed.emplace(part.weight());
  }
  for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
    if (!packed.contains(parameter.name)) program.write_input(parameter.name, trained.read_input(parameter.name));
  }
  double sum = 0;
  const std::int64_t ranks = forward_.parallel().data;
  for (std::int64_t batch = 0; batch < batches_; ++batch) {
    write_batch(program, read_batch(program, data_, batch * ranks * rows_of(program), forward_.parallel().rank));
    program.run();
    program.synchronize();
    sum += scalar_of(program.read_output("loss"));
  }
  ProcessGroup* const group = forward_.group();
  if (group == nullptr) return sum / static_cast<double>(batches_);
  double all = 0;
  for (const std::string& text : group->all_gather(std::to_string(std::bit_cast<std::uint64_t>(sum)), "losses"))
    all += std::bit_cast<double>(static_cast<std::uint64_t>(std::stoull(text)));
  return all / static_cast<double>(batches_ * ranks);
}

}  // namespace ridgepoint::train
