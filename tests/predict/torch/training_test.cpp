// The allocations of an iteration against recordings of PyTorch on the CPU (tools/torch_memory.py trace).
#include "predict/torch/training.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "predict/torch/recording_allocator.h"
#include "support/build_paths.h"

namespace ridgepoint::torch {
namespace {

struct Recording {
  Training training;
  std::vector<std::int64_t> events = {};
};

Recording read_recording(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const nlohmann::json row = nlohmann::json::parse(line);
  const auto size = [&](const char* name) { return row[name].get<std::int64_t>(); };
  Recording recording{
      {.model = {"recorded", size("vocab"), size("context"), size("d_model"), size("d_ff"), size("layers"),
                 size("heads"), attention_variant_from_name(row["attention"].get<std::string>())},
       .batch = size("batch"),
       .mode = mode_from_name(row["mode"].get<std::string>()),
       .precision = precision_from_name(row["dtype"].get<std::string>())}};
  while (std::getline(file, line)) recording.events.push_back(std::stoll(line));
  return recording;
}

TEST(TorchTraining, allocates_and_frees_to_the_byte_what_pytorch_does) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "tests/golden/torch_memory")) {
    SCOPED_TRACE(entry.path().filename());
    const Recording recording = read_recording(entry.path());
    RecordingAllocator allocator;
    run(recording.training, allocator);
    const std::size_t phases = recording.training.mode == Mode::step ? 4 : 1;
    EXPECT_EQ(comparable(allocator.last_phases(phases)), comparable(recording.events));
    ++count;
  }
  EXPECT_EQ(count, 12);
}

TEST(TorchTraining, frees_what_it_allocated) {
  for (const Mode mode : kAllModes) {
    for (const Precision precision : kAllPrecisions) {
      for (const AttentionVariant attention :
           {AttentionVariant::composite, AttentionVariant::softmax, AttentionVariant::flash}) {
        RecordingAllocator allocator;
        run({.model = {"toy", 50, 16, 32, 72, 2, 2, attention},
             .batch = 3,
             .mode = mode,
             .precision = precision,
             .cublas_workspace_bytes = 1024},
            allocator);
        EXPECT_EQ(allocator.live_blocks(), 0U);
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint::torch
