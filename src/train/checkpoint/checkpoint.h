// Checkpoints of a training run: folders FOLDER/step-000000100 that appear whole or not at all.
//
//   manifest.json                          step, place in the data, what the run was asked for, files and their
//   checksums model.safetensors, config.json         the parameters, as transformers loads them; a workload that is no
//   Transformer
//                                          has no config.json, and its parameters have this program's names
//   adapters.safetensors                   parameters of adapters, where there are any
//   adapter/                               the same as PEFT loads them, where it can (peft_adapter.h)
//   optimizer.safetensors                  the states, such as moments and the loss scale; on several ranks
//   optimizer-00001-of-00002.safetensors   one file a rank, where a divided tensor has its parts in the order of ranks
// A checkpoint has whole tensors, or parts that make whole tensors, so a run with other ranks or another sharding can
// resume from it. After load(), every later step has the same bits as in a run without the interruption.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/ops/adapters.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/communicator.h"

namespace ridgepoint::train {

// The facts that a checkpoint states about itself.
struct Manifest {
  std::int64_t step = 0;                            // steps done
  std::int64_t sequences = 0;                       // of the training data that all ranks have read so far
  std::optional<std::array<double, 2>> noise = {};  // GradientNoise::averages()
  Json run = Json::object();  // what the trainer wants to find again: settings, model, data, seeds, schedule
  // The rest is filled in by the writer.
  std::string revision;    // of the program (core/build_info.h)
  std::int64_t ranks = 1;  // that wrote it
};

// Which checkpoints stay when a newer one is whole.
struct KeepRule {
  std::int64_t last = 3;   // the newest ones, at least 1
  std::int64_t every = 0;  // and those of every Kth step; 0: no others
};

struct CheckpointOptions {
  std::filesystem::path folder;  // made where it is missing
  KeepRule keep = {};
  ProcessGroup* group = nullptr;             // null for one rank; all ranks see the same folder
  const TransformerConfig* model = nullptr;  // of the workload (Workload::transformer()); null for another workload
  const LoraOptions* lora = nullptr;         // of the program, where it has adapters
  // Of device memory that a copy of the state may take. Without it, a step waits for the copy to the host.
  std::size_t device_room_bytes = 0;
  // Called in the writing thread before each change to the disk. An exception fails the write as a full disk does.
  std::function<void(const std::string& change)> before_change = {};
};

// Writes the checkpoints of one program in a thread of its own, beside later steps. All ranks call all members
// together. A failed write never ends the training: the previous checkpoint stays, and take_problem() says why.
class CheckpointWriter {
 public:
  // Removes the half-written files of a killed run. Keeps a reference to the program, and memory for a copy of its
  // state. Throws Error if the folder cannot be made or another run writes to it.
  CheckpointWriter(Program& program, CheckpointOptions options);
  // Waits for the last write. On several ranks, call finish() first; otherwise the last write may fail.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the previous write, copies every parameter and state, and begins to write. The program may go on as soon
  // as this returns.
  void save(Manifest manifest);
  // The device memory that a copy of the state needs, 0 if the device has no use for a copy; and the memory that it
  // has, 0 if there was too little.
  std::size_t needed_device_bytes() const;
  std::size_t device_bytes() const;
  // Waits until the last checkpoint is whole, or has failed.
  void finish();
  // A sentence on a write that failed since the last call. One rank alone may call it, after any step.
  std::optional<std::string> take_problem();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

struct FoundCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> passed_over;  // sentences on newer ones that are damaged
  std::vector<std::string> notes;        // what is worth saying: another revision of the program wrote it
};

// The newest whole checkpoint in a folder of checkpoints, or the folder itself if it is a checkpoint. Whole: the
// manifest is sound, and all files have their sizes and checksums. Empty if there is no checkpoint or no folder. Throws
// Error if all checkpoints are damaged, or the given one is. All ranks call this; the first one reads the folder.
std::optional<FoundCheckpoint> find_newest(const std::filesystem::path& folder, ProcessGroup* group = nullptr);

// Writes every parameter and state of the checkpoint to the program. `model` as in CheckpointOptions. Throws Error,
// without changing the program, that names the first tensor that is missing, has another shape or type, or is unknown
// to the program.
void load(Program& program, const FoundCheckpoint& found, const TransformerConfig* model);

}  // namespace ridgepoint::train
