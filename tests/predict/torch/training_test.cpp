// The allocations of an iteration against recordings of PyTorch on the CPU (tools/pytorch/torch_memory.py trace).
#include "predict/torch/torch_forecast.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "predict/torch/recording_allocator.h"
#include "support/program/build_paths.h"

namespace ridgepoint::torch {
namespace {

Training training_of(const Recording& recording) {
  const nlohmann::json& row = recording.configuration;
  return {.model = {"recorded", recording.size("vocab"), recording.size("context"), recording.size("d_model"),
                    recording.size("d_ff"), recording.size("layers"), recording.size("heads"),
                    attention_variant_from_name(row["attention"].get<std::string>())},
          .batch = recording.size("batch"),
          .mode = mode_from_name(row["mode"].get<std::string>()),
          .precision = precision_from_name(row["dtype"].get<std::string>())};
}

TEST(TorchTraining, allocates_and_frees_to_the_byte_what_pytorch_does) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "tests/golden/torch_memory")) {
    SCOPED_TRACE(entry.path().filename());
    const Recording recording = read_recording(entry.path());
    const Training training = training_of(recording);
    RecordingAllocator allocator;
    run(training, allocator);
    const std::size_t phases = training.mode == Mode::step ? 4 : 1;
    EXPECT_EQ(comparable(allocator.last_phases(phases)), comparable(recording.events));
    ++count;
  }
  EXPECT_EQ(count, 12);
}

// In such loops of PyTorch 1.13 on the CPU the peak rises by as much: by the logits, and with gradients from 221,072 to
// 442,144 bytes over the parameters (that version saves more than 2.6, which made the recordings).
TEST(TorchTraining, holds_the_earlier_output_and_its_graph_while_the_next_one_is_made) {
  const auto more = [](Training training) {
    std::int64_t peak[2];
    for (const bool keeps_output : {false, true}) {
      training.keeps_output = keeps_output;
      RecordingAllocator allocator;
      run(training, allocator);
      EXPECT_EQ(allocator.live_blocks(), 0U);
      peak[keeps_output ? 1 : 0] = allocator.peak_bytes();
    }
    return peak[1] - peak[0];
  };
  for (const char* name : {"fp32_composite", "fp32_softmax"}) {  // whose forward ends with nothing that is not saved
    SCOPED_TRACE(name);
    const Recording recording = read_recording(source_folder() / "tests/golden/torch_memory" /
                                               fmt::format("training_forward_{}_batch_2.txt", name));
    Training training = training_of(recording);
    EXPECT_EQ(more(training), std::reduce(recording.events.begin(), recording.events.end()));
    const std::int64_t logits = 4 * recording.size("batch") * recording.size("context") * recording.size("vocab");
    for (const Mode mode : {Mode::forward, Mode::forward_backward}) {
      training.mode = mode;
      EXPECT_EQ(more(training), logits);
    }
  }
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
