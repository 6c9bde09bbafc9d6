#include "run/peers/peer_files.h"

#include <fmt/format.h>

#include <vector>

#include "core/files/file.h"
#include "interchange/safetensors.h"
#include "ridgepoint/program.h"
#include "run/peers/peer_scripts.h"

namespace ridgepoint {
namespace {

std::string description_of_weights(const RunConfig& config) {
  const WorkloadDescription::Model model = config.workload->describe().model;
  return fmt::format("{} {} {} {} {} {}", model.layers, model.d_model, model.d_ff, model.vocab, config.seed,
                     config.weights ? config.weights->source : "");
}

// A tensor of the file, and how to read it from a program that has run.
struct WrittenTensor {
  TensorDeclaration declaration;
  bool is_input;
};

std::vector<WrittenTensor> sources_of(const Graph& graph) {
  std::vector<WrittenTensor> sources;
  for (const NodeId id : graph.inputs(Role::data)) {
    const Node& node = graph.node(id);
    sources.push_back({{input_name(node), graph.type(node.outputs[0])}, true});
  }
  for (const Output& output : graph.outputs()) {
    const bool is_result = output.name == "logits" || output.name == "loss" || output.name.starts_with("grad.");
    if (is_result) sources.push_back({{output.name, {DType::fp32, graph.type(output.value).shape}}, false});
  }
  return sources;
}

HostTensor read(const Program& program, const WrittenTensor& source) {
  const std::string& name = source.declaration.name;
  return source.is_input ? program.read_input(name) : convert(program.read_output(name), DType::fp32);
}

}  // namespace

PeerFiles::PeerFiles() : tensors_{folder_ / "weights.safetensors", folder_ / "expected.safetensors"} {
  for (const EmbeddedFile& script : peer_scripts()) write_file(folder_ / script.name, script.text);
}

PeerTensors PeerFiles::write(const RunConfig& config, const StepWatcher& watch) {
  const StopPoint stop_point = [&] {
    if (watch && !watch({StepProgress::Stage::initialising})) stop_run();
  };
  if (const std::string wanted = description_of_weights(config); wanted != written_weights_) {
    written_weights_.clear();
    write_weights(config, stop_point);
    written_weights_ = wanted;
  }
  write_results(config, watch);
  return tensors_;
}

void PeerFiles::write_weights(const RunConfig& config, const StopPoint& stop_point) {
  const std::vector<ParameterDeclaration> parameters = parameters_of(*config.workload);
  std::vector<TensorDeclaration> declarations;
  for (const auto& [parameter, type] : parameters) declarations.push_back({parameter, type});
  write_safetensors(tensors_.weights, declarations,
                    [&](std::size_t i) { return initial_value(config, parameters[i], stop_point); });
}

void PeerFiles::write_results(RunConfig config, const StepWatcher& watch) {
  if (config.compile.mode == Mode::step) config.compile.mode = Mode::backward;
  if (config.compile.mode == Mode::training_forward) config.compile.mode = Mode::forward;
  config.compile.keep = {.results = true, .gradients = true};
  Record record;  // not read: the results are tensors
  Session session(config, watch, record);
  const ProgramPlan plan = session.plan();
  session.require_room(plan, session.forecast(plan));
  Program program = session.make(plan);
  session.initialise(program);
  program.run();
  program.synchronize();
  const std::vector<WrittenTensor> sources = sources_of(program.graph());
  std::vector<TensorDeclaration> declarations;
  for (const WrittenTensor& source : sources) declarations.push_back(source.declaration);
  write_safetensors(tensors_.expected, declarations, [&](std::size_t i) { return read(program, sources[i]); });
}

}  // namespace ridgepoint
