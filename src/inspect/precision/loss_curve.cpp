#include "inspect/precision/loss_curve.h"

#include <random>

#include "core/text/throw_error.h"
#include "models/text_workload.h"
#include "predict/forecast.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kByteValues = 256;

// Batches of sequences from random places of a text, and the tokens that follow.
class TextBatches {
 public:
  TextBatches(std::string_view text, const WorkloadDescription& model, std::uint64_t seed)
      : text_(text), type_{DType::int64, {model.batch, model.context}}, random_(seed) {
    if (model.model.vocab < kByteValues || model.context < 1)
      throw_error(ErrorKind::usage,
                  "a loss curve needs a language model of {} tokens or more, one for each byte of the text",
                  kByteValues);
    if (std::ssize(text) <= model.context)
      throw_error(ErrorKind::usage, "the text has {} bytes, but a sequence takes {} and one more", text.size(),
                  model.context);
  }

  void write_next(Program& program) {
    HostTensor inputs(type_);
    HostTensor targets(type_);
    const std::int64_t context = type_.shape[1];
    for (std::int64_t row = 0; row < type_.shape[0]; ++row) {
      const std::size_t places = text_.size() - static_cast<std::size_t>(context);
      const std::size_t place = random_() % places;
      for (std::int64_t i = 0; i < context; ++i) {
        const auto at = static_cast<std::size_t>(row * context + i);
        const std::size_t from = place + static_cast<std::size_t>(i);
        inputs.as<std::int64_t>()[at] = static_cast<unsigned char>(text_[from]);
        targets.as<std::int64_t>()[at] = static_cast<unsigned char>(text_[from + 1]);
      }
    }
    program.write_input("inputs", inputs);
    program.write_input("targets", targets);
  }

 private:
  std::string_view text_;
  TensorType type_;
  std::mt19937_64 random_;
};

}  // namespace

std::vector<LossCurve> measure_loss_curves(const Workload& workload, std::string_view text,
                                           const LossCurveOptions& options, const std::shared_ptr<Device>& device,
                                           const std::function<bool(Precision precision, std::int64_t step)>& watch) {
  require_learns_text(workload, "a loss curve");
  std::vector<LossCurve> curves;
  for (const Precision precision : options.precisions) {
    TextBatches batches(text, workload.describe(), options.seed);
    ProgramOptions program_options;
    program_options.compile.mode = Mode::step;
    program_options.compile.precision = precision;
    program_options.compile.level = Compile::fuse;
    Program program(plan_with_room(workload.build(), device, program_options));
    initialise(program, workload, options.seed);
    LossCurve& curve = curves.emplace_back(LossCurve{precision, {}});
    for (std::int64_t step = 0; step < options.steps; ++step) {
      if (watch && !watch(precision, step)) {
        curves.pop_back();
        return curves;
      }
      batches.write_next(program);
      program.run();
      program.synchronize();
      curve.losses.push_back(scalar_of(program.read_output("loss")));
    }
  }
  return curves;
}

}  // namespace ridgepoint
