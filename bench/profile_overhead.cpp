// The cost of a profile for the step that it records: profile_overhead DEVICE PRESET BATCH CONTEXT
// MODE [ROUNDS]
// Steps with and without the device's recorder alternate, so that both run in the same conditions; the recorder starts
// before and stops after the timed step. Prints medians, and the median of the ratios of neighbouring steps.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/record/record.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"
#include "runtime/device/host_device.h"

namespace ridgepoint {
namespace {

double step_ms(Program& program) {
  const std::int64_t begin_ns = steady_now_ns();
  program.run();
  program.synchronize();
  return static_cast<double>(steady_now_ns() - begin_ns) / 1e6;
}

double recorded_step_ms(Program& program, ActivityRecorder& recorder) {
  recorder.start(program.launches_per_run());
  program.observe(&recorder);
  const double ms = step_ms(program);
  program.observe(nullptr);
  recorder.stop();
  return ms;
}

void run(int argc, char** argv) {
  if (argc < 6) {
    throw Error("usage: profile_overhead DEVICE PRESET BATCH CONTEXT MODE [ROUNDS]", ErrorKind::usage);
  }
  const int rounds = argc > 6 ? std::atoi(argv[6]) : 15;
  TransformerConfig config = transformer_preset(argv[2]);
  config.context = std::atoll(argv[4]);
  Program program(build_transformer(config, std::atoll(argv[3])), open_device(argv[1]),
                  {.compile = {.mode = mode_from_name(argv[5])}});
  initialise(program, Transformer(config, std::atoll(argv[3])), 0);
  const std::unique_ptr<ActivityRecorder> recorder = program.device().make_activity_recorder();
  for (int i = 0; i < 3; ++i) program.run();
  recorded_step_ms(program, *recorder);
  std::vector<double> plain, recorded, ratios;
  for (int i = 0; i < rounds; ++i) {
    plain.push_back(step_ms(program));
    recorded.push_back(recorded_step_ms(program, *recorder));
    ratios.push_back(recorded.back() / plain.back());
  }
  const Statistics without = describe(plain), with = describe(recorded), ratio = describe(ratios);
  fmt::print(
      "{} launches a step, {} rounds\nwithout {:.3f} ms (quartiles {:.3f}-{:.3f})\nrecorded {:.3f} ms ({:.3f}-{:.3f})\n"
      "ratio {:.4f} ({:.4f}-{:.4f})\n",
      program.launches_per_run(), rounds, without.median, without.quartiles[0], without.quartiles[2], with.median,
      with.quartiles[0], with.quartiles[2], ratio.median, ratio.quartiles[0], ratio.quartiles[2]);
}

}  // namespace
}  // namespace ridgepoint

int main(int argc, char** argv) {
  try {
    ridgepoint::run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "profile_overhead: {}\n", error.what());
    return 1;
  }
}
