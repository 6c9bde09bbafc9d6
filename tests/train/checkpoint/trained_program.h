// Programs that train tiny models, in each way that changes what a checkpoint has; and folders of checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/temporary_folder.h"
#include "interchange/huggingface/weights/published_weights.h"
#include "models/transformer/transformer.h"
#include "train/checkpoint/checkpoint.h"

namespace ridgepoint::train {

// A folder of checkpoints; the temporary folder itself is locked.
class RunFolder {
 public:
  RunFolder() { std::filesystem::create_directory(path()); }
  std::filesystem::path path() const { return folder_ / "run"; }
  std::filesystem::path operator/(std::string_view name) const { return path() / name; }

 private:
  TemporaryFolder folder_;
};

// Moments of one of its weights are codes: it has whole blocks of 256 in each row.
inline TransformerConfig tiny() {
  TransformerConfig config;
  config.layers = 2;
  config.d_model = 64;
  config.d_ff = 256;
  config.heads = 4;
  config.vocab = 97;
  config.context = 8;
  return config;
}

struct Training {
  std::string name;
  CompileOptions options = {};
  TransformerConfig config = tiny();

  friend void PrintTo(const Training& training, std::ostream* out) { *out << training.name; }
};

inline CompileOptions compiled_as(Precision precision, Compile level = Compile::full) {
  CompileOptions options;
  options.mode = Mode::step;
  options.level = level;
  options.precision = precision;
  return options;
}

inline std::vector<Training> trainings() {
  std::vector<Training> all = {
      {"fp32", compiled_as(Precision::fp32)},        {"fp32_eager", compiled_as(Precision::fp32, Compile::off)},
      {"bf16", compiled_as(Precision::bf16)},        {"fp16", compiled_as(Precision::fp16)},
      {"adamw_8bit", compiled_as(Precision::bf16)},  {"lora", compiled_as(Precision::bf16)},
      {"accumulated", compiled_as(Precision::fp32)}, {"sgd", compiled_as(Precision::fp32)},
      {"lora_nf4", compiled_as(Precision::bf16)},    {"offloaded", compiled_as(Precision::bf16)}};
  all[3].options.loss_scaling.growth_interval = 2;  // so that the scale changes
  all[4].options.optimizer.kind = Optimizer::adamw_8bit;
  all[5].options.lora = LoraOptions{};
  all[6].options.accumulate = 2;
  all[7].options.optimizer.kind = Optimizer::sgd;
  all[8].options.lora = LoraOptions{};
  all[8].options.base_weights = BaseWeights::nf4;
  all[8].options.published_weights = published_weights(tiny(), BaseWeights::nf4);
  all[9].options.offload = Offload::optimizer;
  return all;
}

// A program on one of the ranks, and the workload that it runs.
class TrainedProgram {
 public:
  TrainedProgram(const Training& training, std::uint64_t seed, std::int64_t rank = 0, std::int64_t ranks = 1,
                 Sharding shard = Sharding::none, const std::shared_ptr<Communicator>& communicator = nullptr,
                 const std::shared_ptr<Device>& device = open_device("cpu"))
      : workload_(training.config, 4),
        program_(workload_.build(), device,
                 {.compile = options(training, rank, ranks, shard), .communicator = communicator}),
        rank_(rank) {
    initialise(program_, workload_, seed);
  }

  Program& program() { return program_; }
  const TransformerConfig* model() const { return workload_.transformer(); }

  // The loss of a step, whose tokens follow from its number and the rank.
  float step(std::int64_t number) {
    for (const char* name : {"inputs", "targets"}) {
      HostTensor tokens = program_.read_input(name);
      std::int64_t i = number * 7 + rank_ * 3 + (name[0] == 't' ? 1 : 0);
      for (std::int64_t& token : tokens.as<std::int64_t>()) token = (i++ * 31) % 97;
      program_.write_input(name, tokens);
    }
    program_.run();
    program_.synchronize();
    return convert(program_.read_output("loss"), DType::fp32).as<float>()[0];
  }

  // What this rank stores, as bytes.
  std::map<std::string, std::vector<std::byte>> state() {
    program_.synchronize();
    std::map<std::string, std::vector<std::byte>> all;
    for (const StatePart& part : program_.state_parts()) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(part.end - part.begin) * size_bytes(part.stored));
      program_.read_part(part, bytes);
      all.emplace(part.name, std::move(bytes));
    }
    return all;
  }

 private:
  static CompileOptions options(const Training& training, std::int64_t rank, std::int64_t ranks, Sharding shard) {
    CompileOptions options = training.options;
    options.parallel = {.data = ranks, .rank = rank, .shard = shard};
    if (ranks > 1) options.offload = Offload::none;
    return options;
  }

  Transformer workload_;
  Program program_;
  std::int64_t rank_;
};

inline void expect_same(const std::map<std::string, std::vector<std::byte>>& found,
                        const std::map<std::string, std::vector<std::byte>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, bytes] : expected) EXPECT_TRUE(found.at(name) == bytes) << name;
}

inline Manifest at(std::int64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.sequences = 4 * step;
  manifest.noise = {0.0625, 1 / 3.0};
  manifest.run = {{"seed", 1}, {"rate", 0.1}};
  return manifest;
}

inline void save(TrainedProgram& run, const std::filesystem::path& folder, std::int64_t step,
                 const KeepRule& keep = {}) {
  CheckpointWriter writer(run.program(), {.folder = folder, .keep = keep, .model = run.model()});
  writer.save(at(step));
  writer.finish();
  EXPECT_EQ(writer.take_problem(), std::nullopt);
}

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// For tests that need no more than a model to save.
inline Training plain() { return trainings()[0]; }

}  // namespace ridgepoint::train
