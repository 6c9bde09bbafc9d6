#include "train/checkpoint/checkpoint_files.h"

#include <fmt/format.h>

#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/huggingface/weights/peft_adapter.h"
#include "ir/stored_tensors.h"

namespace ridgepoint::train {
namespace {

namespace fs = std::filesystem;

std::string parameters_file(std::size_t rank) { return fmt::format("parameters-{:05}.safetensors", rank + 1); }
std::string optimizer_file(std::size_t rank, std::size_t ranks) {
  return ranks == 1 ? fmt::format("{}.safetensors", kOptimizerStem)
                    : fmt::format("{}-{:05}-of-{:05}.safetensors", kOptimizerStem, rank + 1, ranks);
}

std::string packed_name(const PackedMatrix& matrix, const std::string& weight) {
  return std::string(packed_prefix(matrix.format)) + weight;
}

bool is_whole(const StatePart& part) { return part.end - part.begin == part.type.elements(); }

}  // namespace

CheckpointFiles::CheckpointFiles(const Program& program, const StateCopy& state, const CheckpointOptions& options,
                                 std::size_t rank, std::size_t ranks,
                                 const std::function<void(const std::string&)>& before_change)
    : state_(state),
      model_(options.model),
      lora_(options.lora),
      rank_(rank),
      ranks_(ranks),
      before_change_(before_change) {
  for (const StatePart& part : state.parts()) {
    if (part.is_parameter) parameters_.emplace(part.name, &part);
  }
  for (const NodeId id : program.graph().inputs(Role::parameter)) {
    for (const StoredTensor& tensor : stored_tensors(program.graph(), program.graph().node(id)))
      if (tensor.packed) packed_.emplace(tensor.name, *tensor.packed);
  }
  if (model_ == nullptr || rank != 0) return;
  // Constants never change.
  for (const ParameterDeclaration& one : parameters_of(stored_weights(*model_), true)) {
    if (program.graph().find_input(one.name))
      constants_.emplace(one.name, convert(program.read_input(one.name), DType::fp32));
  }
}

std::vector<CheckpointFile> CheckpointFiles::write_own(const fs::path& folder) const {
  std::vector<CheckpointFile> files;
  write_copies(folder, optimizer_file(rank_, ranks_), false, files);
  std::vector<CheckpointFile> passed_on;
  if (rank_ != 0) write_copies(folder, parameters_file(rank_), true, passed_on);
  return files;
}

void CheckpointFiles::write_copies(const fs::path& folder, const std::string& name, bool parameters,
                                   std::vector<CheckpointFile>& files) const {
  std::vector<TensorDeclaration> declarations;
  for (const StatePart* part : state_.written()) {
    if (part->is_parameter != parameters) continue;
    declarations.push_back(
        {part->name, {part->stored, is_whole(*part) ? part->type.shape : Shape{part->end - part->begin}}});
  }
  if (declarations.empty()) return;
  write_tensors(folder, name, declarations, files, [&](std::size_t i) { return state_.bytes(declarations[i].name); });
}

void CheckpointFiles::write_tensors(const fs::path& folder, const std::string& name,
                                    const std::vector<TensorDeclaration>& declarations,
                                    std::vector<CheckpointFile>& files, const Bytes& bytes) const {
  before_change_(name);
  const std::pair<std::string, std::string> format = kTorchFormat;
  Checksum checksum;
  write_tensor_bytes(folder / name, declarations, bytes, std::span(&format, 1), &checksum);
  files.push_back({name, checksum.size_bytes(), checksum.value()});
}

void CheckpointFiles::write_parameters(const fs::path& folder, const fs::path& final_folder,
                                       std::vector<CheckpointFile>& files) const {
  PartFiles others;
  for (std::size_t rank = 1; rank < ranks_; ++rank) {
    std::error_code ignored;
    if (const fs::path path = folder / parameters_file(rank); fs::exists(path, ignored))
      others.push_back(std::make_unique<SafetensorsFile>(path));
  }
  std::vector<TensorDeclaration> rest;
  const auto in_model = [&](const ModelTensors* model) {
    for (const StatePart& part : state_.parts()) {
      if (part.is_parameter && (model == nullptr || !model->contains(part.name)))
        rest.push_back({part.name, {part.stored, part.type.shape}});
    }
  };
  HostTensor made;
  if (model_ != nullptr) {
    ModelTensors model(
        *model_,
        [&](const ParameterDeclaration& one) {
          const auto found = parameters_.find(one.name);
          if (found != parameters_.end()) {
            HostTensor value = whole_parameter(*found->second, others);
            return value.type.dtype == DType::fp32 ? value : convert(value, DType::fp32);
          }
          if (const auto packed = packed_.find(one.name); packed != packed_.end()) {
            HostTensor value({DType::fp32, one.type.shape});
            const std::span<const std::byte> bytes = state_.bytes(packed_name(packed->second, one.name));
            unpack(packed->second, bytes.data(), 0, packed->second.elements(), value.as<float>().data());
            return value;
          }
          const auto constant = constants_.find(one.name);
          if (constant == constants_.end()) throw_error("the program has no '{}'", one.name);
          return constant->second;
        },
        [&](const std::string& name) {
          if (packed_.contains(name)) return DType::bf16;
          const auto found = parameters_.find(name);
          return found == parameters_.end() ? DType::fp32 : found->second->stored;
        },
        [&](const std::string& name) -> std::optional<PackedBytes> {
          const auto packed = packed_.find(name);
          // Files of models have no fp8 weights, so these are written in bf16.
          if (packed == packed_.end() || packed->second.format == BaseWeights::fp8) return std::nullopt;
          return PackedBytes{packed->second, state_.bytes(packed_name(packed->second, name))};
        });
    write_tensors(folder, std::string(kModelFile), model.declarations(), files,
                  [&](std::size_t i) -> std::span<const std::byte> {
                    const std::span<const std::byte> own = state_.bytes(model.same_as(i));
                    if (own.size() == model.declarations()[i].type.bytes()) return own;
                    made = model.value(i);
                    return made.data;
                  });
    write_text(folder, "config.json", model.config(), files);
    in_model(&model);
  } else {
    in_model(nullptr);
  }
  if (!rest.empty()) {
    write_tensors(folder, std::string(model_ != nullptr ? kAdapterFile : kModelFile), rest, files,
                  [&](std::size_t i) -> std::span<const std::byte> {
                    made = whole_parameter(*parameters_.at(rest[i].name), others);
                    return made.data;
                  });
  }
  if (!rest.empty() && model_ != nullptr && lora_ != nullptr) write_peft(folder, final_folder, rest, others, files);
  others.clear();
  for (std::size_t rank = 1; rank < ranks_; ++rank) fs::remove(folder / parameters_file(rank));
}

void CheckpointFiles::write_text(const fs::path& folder, const std::string& name, const Json& json,
                                 std::vector<CheckpointFile>& files) const {
  before_change_(name);
  const std::string text = json.dump(2) + "\n";
  write_file(folder / name, text);
  Checksum checksum;
  checksum.add(text);
  files.push_back({name, checksum.size_bytes(), checksum.value()});
}

void CheckpointFiles::write_peft(const fs::path& folder, const fs::path& final_folder,
                                 const std::vector<TensorDeclaration>& adapters, const PartFiles& others,
                                 std::vector<CheckpointFile>& files) const {
  std::vector<std::string> names;
  for (const TensorDeclaration& one : adapters) names.push_back(one.name);
  std::optional<PeftTensors> tensors;
  try {
    tensors.emplace(*model_, *lora_, names, [&](const std::string& name) {
      return convert(whole_parameter(*parameters_.at(name), others), DType::fp32);
    });
  } catch (const Error&) {
    return;  // PEFT has no place for these adapters
  }
  fs::create_directory(folder / kPeftFolder);
  const std::string prefix = std::string(kPeftFolder) + "/";
  HostTensor made;
  write_tensors(folder, prefix + std::string(kPeftTensorFile), tensors->declarations(), files,
                [&](std::size_t i) -> std::span<const std::byte> {
                  made = tensors->value(i);
                  return made.data;
                });
  write_text(folder, prefix + std::string(kPeftConfigFile), tensors->config(fs::absolute(final_folder)), files);
}

HostTensor CheckpointFiles::whole_parameter(const StatePart& part, const PartFiles& others) const {
  HostTensor tensor;
  tensor.type = {part.stored, part.type.shape};
  const std::span<const std::byte> own = state_.bytes(part.name);
  tensor.data.assign(own.begin(), own.end());
  for (const auto& file : others) {
    if (!file->contains(part.name)) continue;
    const HostTensor theirs = file->read(part.name);
    tensor.data.insert(tensor.data.end(), theirs.data.begin(), theirs.data.end());
  }
  if (tensor.data.size() != tensor.type.bytes())
    throw_error("the ranks have {} of the {} bytes of '{}'", tensor.data.size(), tensor.type.bytes(), part.name);
  return tensor;
}

std::map<std::string, TensorType> CheckpointFiles::tensors() const {
  std::map<std::string, TensorType> types;
  for (const StatePart& part : state_.parts()) types.emplace(part.name, TensorType{part.stored, part.type.shape});
  return types;
}

}  // namespace ridgepoint::train
