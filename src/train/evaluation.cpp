#include "train/evaluation.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

#include "run/session/steps/step_benchmark.h"

namespace ridgepoint::train {
namespace {

Program planned_program(Session& session) {
  const ProgramPlan plan = session.plan(Mode::forward);
  session.require_room(plan, session.forecast(plan));
  Program program = session.make(plan);
  session.initialise(program);
  return program;
}

std::int64_t ranks_of(const Session& session) { return session.parallel().data; }

}  // namespace

std::int64_t rows_of(const Program& program) {
  const Graph& graph = program.graph();
  return graph.type(*graph.find_input("inputs")).shape[0];
}

void write_sequences(Program& program, const Sequences& data, std::int64_t first, std::int64_t rank) {
  const Graph& graph = program.graph();
  const TensorType type = graph.type(*graph.find_input("inputs"));
  const std::int64_t rows = type.shape[0];
  const auto context = static_cast<std::size_t>(type.shape[1]);
  HostTensor inputs(type), targets(type);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row) * context;
    data.read(first + rank * rows + row, inputs.as<std::int64_t>().subspan(at, context),
              targets.as<std::int64_t>().subspan(at, context));
  }
  program.write_input("inputs", inputs);
  program.write_input("targets", targets);
}

Evaluation::Evaluation(Session& session, const Sequences& data, std::int64_t batches)
    : session_(session), data_(data), program_(planned_program(session)) {
  const std::int64_t rows = rows_of(program_) * ranks_of(session);
  batches_ = std::clamp<std::int64_t>(data.count() / rows, 1, batches);
}

double Evaluation::loss(const Program& trained) {
  for (const ParameterDeclaration& parameter : parameters_of(program_.graph()))
    program_.write_input(parameter.name, trained.read_input(parameter.name));
  double sum = 0;
  const std::int64_t ranks = ranks_of(session_);
  for (std::int64_t batch = 0; batch < batches_; ++batch) {
    write_sequences(program_, data_, batch * ranks * rows_of(program_), session_.parallel().rank);
    program_.run();
    program_.synchronize();
    sum += *loss_of(program_);
  }
  ProcessGroup* const group = session_.config().group.get();
  if (group == nullptr) return sum / static_cast<double>(batches_);
  double all = 0;
  for (const std::string& text : group->all_gather(std::to_string(std::bit_cast<std::uint64_t>(sum)), "losses"))
    all += std::bit_cast<double>(static_cast<std::uint64_t>(std::stoull(text)));
  return all / static_cast<double>(batches_ * ranks);
}

}  // namespace ridgepoint::train
