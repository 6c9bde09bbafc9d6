// The files that a rank writes into the folder of a checkpoint, beside the manifest.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/packed/packed_matrix.h"
#include "interchange/safetensors.h"
#include "models/transformer/transformer.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/state_copy.h"

namespace ridgepoint::train {

class CheckpointFiles {
 public:
  // `before_change` is called before each file. Referenced objects must outlive this one.
  CheckpointFiles(const Program& program, const StateCopy& state, const CheckpointOptions& options, std::size_t rank,
                  std::size_t ranks, const std::function<void(const std::string&)>& before_change);

  // Writes the states that this rank copied, and on other ranks than the first their parts of parameters, which the
  // first rank joins.
  std::vector<CheckpointFile> write_own(const std::filesystem::path& folder) const;
  // Called by the first rank after write_own() of all ranks: writes the parameters of all ranks, in the files of the
  // model or as they are. `final_folder`: the folder's later name.
  void write_parameters(const std::filesystem::path& folder, const std::filesystem::path& final_folder,
                        std::vector<CheckpointFile>& files) const;
  // All, by name, in the type in which they are stored.
  std::map<std::string, TensorType> tensors() const;

 private:
  using Bytes = std::function<std::span<const std::byte>(std::size_t)>;
  using PartFiles = std::vector<std::unique_ptr<SafetensorsFile>>;

  void write_copies(const std::filesystem::path& folder, const std::string& name, bool parameters,
                    std::vector<CheckpointFile>& files) const;
  void write_tensors(const std::filesystem::path& folder, const std::string& name,
                     const std::vector<TensorDeclaration>& declarations, std::vector<CheckpointFile>& files,
                     const Bytes& bytes) const;
  void write_text(const std::filesystem::path& folder, const std::string& name, const Json& json,
                  std::vector<CheckpointFile>& files) const;
  // Writes the adapters for PEFT into a folder of their own, because transformers does not load an adapter's folder as
  // a model.
  void write_peft(const std::filesystem::path& folder, const std::filesystem::path& final_folder,
                  const std::vector<TensorDeclaration>& adapters, const PartFiles& others,
                  std::vector<CheckpointFile>& files) const;
  HostTensor whole_parameter(const StatePart& part, const PartFiles& others) const;

  const StateCopy& state_;
  const TransformerConfig* model_;
  const LoraOptions* lora_;
  const std::size_t rank_, ranks_;
  const std::function<void(const std::string&)>& before_change_;
  std::unordered_map<std::string, const StatePart*> parameters_;  // by name
  std::unordered_map<std::string, HostTensor> constants_;
  std::unordered_map<std::string, PackedMatrix> packed_;  // by weight
};

}  // namespace ridgepoint::train
