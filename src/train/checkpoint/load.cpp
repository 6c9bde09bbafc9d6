#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "core/build_info.h"
#include "core/text/throw_error.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/safetensors.h"
#include "interchange/safetensors_names.h"
#include "ir/stored_tensors.h"
#include "passes/training/training.h"
#include "train/checkpoint/manifest.h"

namespace ridgepoint::train {
namespace {

namespace fs = std::filesystem;

// The parameters that the program updates: rounding them would change later steps.
std::set<std::string> trained_parameters(const Graph& graph) {
  std::set<std::string> trained;
  for (const NodeId id : graph.inputs(Role::parameter)) {
    const Node& node = graph.node(id);
    if (std::ranges::find(graph.updates(), node.outputs[0], &Update::input) == graph.updates().end()) continue;
    for (const StoredTensor& tensor : stored_tensors(graph, node)) trained.insert(tensor.name);
  }
  return trained;
}

void check_tensors(const std::vector<StatePart>& parts, const ManifestContents& contents, const Graph& graph,
                   const fs::path& folder) {
  const std::string path = folder.string();
  const std::set<std::string> trained = trained_parameters(graph);
  std::set<std::string_view> known;
  for (const StatePart& part : parts) {
    known.insert(part.name);
    const TensorType expected{part.stored, part.type.shape};
    const auto found = contents.tensors.find(part.name);
    if (found == contents.tensors.end())
      throw_error(
          "the checkpoint '{}' lacks {}, which this run has as {}: it is of another model or "
          "optimizer",
          path, quote_name(part.name), expected.to_string());
    const bool may_round = part.is_parameter && !trained.contains(part.name) && is_floating(found->second.dtype);
    if (!(found->second.shape == expected.shape) || (found->second.dtype != expected.dtype && !may_round))
      throw_error(
          "{} is {} in the checkpoint '{}', and {} in this run: give the same model, optimizer and "
          "precision",
          quote_name(part.name), found->second.to_string(), path, expected.to_string());
  }
  for (const auto& [name, type] : contents.tensors) {
    if (known.contains(name) || name == kSkippedSteps) continue;
    throw_error(
        "the checkpoint '{}' has {} as {}, which this run lacks: it is of another model or "
        "optimizer",
        path, quote_name(name), type.to_string());
  }
}

// Tensors in the files of all ranks, each whole or in parts in their order.
class StateFiles {
 public:
  StateFiles(const fs::path& folder, const std::vector<CheckpointFile>& files) {
    for (const CheckpointFile& file : files) {
      if (file.name.starts_with(kOptimizerStem))
        files_.push_back(std::make_unique<SafetensorsFile>(folder / file.name));
    }
  }

  void check(const std::string& name, const TensorType& type) const {
    std::int64_t elements = 0;
    for (const auto& file : files_) {
      if (!file->contains(name)) continue;
      const TensorType& found = file->type(name);
      if (found.dtype != type.dtype)
        throw_error("{} is {} in '{}', and its manifest says {}", quote_name(name), found.to_string(),
                    file->path().string(), type.to_string());
      elements += found.elements();
    }
    if (elements != type.elements())
      throw_error("the files of the checkpoint have {} elements of {}, and its manifest says {}", elements,
                  quote_name(name), type.to_string());
  }

  HostTensor read(const std::string& name, const TensorType& type) const {
    HostTensor whole;
    whole.type = type;
    for (const auto& file : files_) {
      if (!file->contains(name)) continue;
      HostTensor part = file->read(name);
      if (whole.data.empty()) {
        whole.data = std::move(part.data);
      } else {
        whole.data.insert(whole.data.end(), part.data.begin(), part.data.end());
      }
    }
    return whole;
  }

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

// The parameters, under this program's names.
class ParameterFiles {
 public:
  ParameterFiles(const fs::path& folder, const TransformerConfig* model) {
    std::error_code ignored;
    if (fs::exists(folder / kAdapterFile, ignored)) adapters_.emplace(folder / kAdapterFile);
    if (model != nullptr) {
      weights_.emplace(folder / kModelFile, *model);
      for (const ParameterDeclaration& one : weights_->parameters()) of_model_.insert(one.name);
      const std::vector<std::string> problems = weights_->problems();
      if (!problems.empty()) throw Error(problems.front());
    } else {
      model_.emplace(folder / kModelFile);
    }
  }

  void check(const StatePart& part) const {
    if (of_model_.contains(part.name)) return;
    const TensorType& found = file_of(part.name).type(part.name);
    if (!(found.shape == part.type.shape) || !is_floating(found.dtype))
      throw_error("{} is {} in '{}', and {} in this run", quote_name(part.name), found.to_string(),
                  file_of(part.name).path().string(), part.type.to_string());
  }

  HostTensor read(const std::string& name) const {
    return of_model_.contains(name) ? weights_->read(name) : file_of(name).read(name);
  }
  const ModelWeights* weights() const { return weights_ ? &*weights_ : nullptr; }

 private:
  const SafetensorsFile& file_of(const std::string& name) const {
    if (adapters_ && adapters_->contains(name)) return *adapters_;
    if (model_) return *model_;
    if (adapters_) return *adapters_;
    throw_error("the checkpoint has no file with {}", quote_name(name));
  }

  std::optional<ModelWeights> weights_;
  std::optional<SafetensorsFile> model_, adapters_;
  std::set<std::string> of_model_;
};

void write(Program& program, const StatePart& part, const HostTensor& tensor) {
  const bool is_declared = tensor.type.dtype == part.type.dtype;
  HostTensor given = is_declared ? tensor : convert(tensor, part.type.dtype);
  given.type = part.type;
  program.write_input(part.name, given);
}

// The result of the first rank's search.
struct Found {
  std::string folder;  // empty: none
  std::vector<std::string> passed_over;
  std::string error;
};

// Empty if the checkpoint is whole.
std::string problem_of(const fs::path& checkpoint) {
  try {
    const std::vector<CheckpointFile> files = read_manifest(checkpoint).files;
    const std::string problem = problem_of_files(checkpoint, files, false);
    return problem.empty() ? problem_of_files(checkpoint, files, true) : problem;
  } catch (const Error& error) {
    return error.what();
  }
}

Found look(const fs::path& folder) {
  std::error_code ignored;
  const bool is_one = fs::exists(folder / kManifestFile, ignored) ||
                      step_of_folder(fs::absolute(folder, ignored).lexically_normal().filename().string()) >= 0;
  if (is_one && fs::exists(folder, ignored)) return {folder.string(), {}, problem_of(folder)};
  Found found;
  for (const auto& [step, path] : checkpoints_in(folder)) {
    std::string problem = problem_of(path);
    if (problem.empty()) {
      found.folder = path.string();
      return found;
    }
    found.passed_over.push_back(fmt::format("the checkpoint of step {} is passed over: {}", step, problem));
  }
  if (!found.passed_over.empty())
    found.error = fmt::format("no checkpoint in '{}' is whole; the newest: {}", folder.string(), found.passed_over[0]);
  return found;
}

Found look_together(const fs::path& folder, ProcessGroup* group) {
  if (group == nullptr) return look(folder);
  std::string mine;
  if (group->rank() == 0) {
    const Found found = look(folder);
    mine = dump_json({{"folder", found.folder}, {"passed_over", found.passed_over}, {"error", found.error}});
  }
  const Json json = parse_json(group->all_gather(mine, "the newest checkpoint", ProcessGroup::TimeLimit::none)[0]);
  return {json["folder"].get<std::string>(), json["passed_over"].get<std::vector<std::string>>(),
          json["error"].get<std::string>()};
}

}  // namespace

void load(Program& program, const FoundCheckpoint& found, const TransformerConfig* model) {
  const ManifestContents contents = read_manifest(found.folder);
  std::vector<StatePart> parts = program.state_parts();
  // If the earlier run did not skip steps, the count of skipped steps begins at 0.
  if (!contents.tensors.contains(std::string(kSkippedSteps)))
    std::erase_if(parts, [](const StatePart& part) { return part.name == kSkippedSteps; });
  check_tensors(parts, contents, program.graph(), found.folder);
  const StateFiles states(found.folder, contents.files);
  const ParameterFiles parameters(found.folder, model);
  for (const StatePart& part : parts)
    part.is_parameter ? parameters.check(part) : states.check(part.name, contents.tensors.at(part.name));
  for (const StatePart& part : parts) {
    if (part.is_packed) {
      program.write_part(part, states.read(part.name, contents.tensors.at(part.name)).data);
      continue;
    }
    write(program, part,
          part.is_parameter ? parameters.read(part.name) : states.read(part.name, contents.tensors.at(part.name)));
  }
  if (parameters.weights() == nullptr) return;
  for (const ParameterDeclaration& constant : parameters.weights()->constants()) {
    if (program.graph().find_input(constant.name))
      program.write_input(constant.name, parameters.weights()->read(constant.name));
  }
}

std::optional<FoundCheckpoint> find_newest(const fs::path& folder, ProcessGroup* group) {
  Found found = look_together(folder, group);
  if (!found.error.empty()) throw Error(found.error);
  if (found.folder.empty()) return std::nullopt;
  FoundCheckpoint checkpoint{found.folder, read_manifest(found.folder).manifest, std::move(found.passed_over), {}};
  const std::string& wrote = checkpoint.manifest.revision;
  if (wrote != revision()) {
    checkpoint.notes.push_back(
        fmt::format("'{}' was written by revision {} of this program, which is revision {}: later steps may round "
                    "differently",
                    found.folder, wrote, revision()));
  }
  return checkpoint;
}

}  // namespace ridgepoint::train
