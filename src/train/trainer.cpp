#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "core/seconds_since.h"
#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "passes/training/training.h"
#include "predict/cards/datasheet.h"
#include "run/session/steps/step_benchmark.h"
#include "train/checkpoint/state_copy.h"
#include "train/forward_program.h"
#include "train/gradient_noise.h"

namespace ridgepoint::train {
namespace {

// The validation loss: a program that runs only forward and loss, with parameters of its own. All ranks make and use it
// together.
class Evaluation {
 public:
  // Throws OutOfMemory if it does not fit in the remaining memory. `batches`: the number of batches of each rank in the
  // mean loss, or fewer if the data have fewer.
  Evaluation(const RunConfig& config, const StepWatcher& watch, const Sequences& data, std::int64_t batches);

  // The mean loss with the parameters of the program that is trained: the same sequences each time.
  double loss(const Program& trained);
  const ForwardProgram& forward() const { return forward_; }

 private:
  ForwardProgram forward_;
  const Sequences& data_;
  std::int64_t batches_;
};

// "inputs" and "targets" of a run of a program.
struct TokenBatch {
  std::int64_t first = -1;  // the sequence of the run of all ranks that comes first; -1: none is read
  HostTensor inputs, targets;
};

// The loss of a training step is the only result of the forward graph.
void leave_loss(Graph& graph) {
  const Value loss = *graph.find_loss();
  graph.erase_outputs([](const Output&) { return true; });
  graph.add_output("loss", loss);
}

// The sequences of one run of the program.
std::int64_t rows_of(const Program& program) {
  const Graph& graph = program.graph();
  return graph.type(*graph.find_input("inputs")).shape[0];
}

// Writes sequences from number `first` on, as many as the program takes. Each rank takes equally many; this program
// gets the rows of rank `rank`.
TokenBatch read_batch(const Program& program, const Sequences& data, std::int64_t first, std::int64_t rank) {
  const Graph& graph = program.graph();
  const TensorType type = graph.type(*graph.find_input("inputs"));
  const std::int64_t rows = type.shape[0];
  const auto context = static_cast<std::size_t>(type.shape[1]);
  TokenBatch batch{first, HostTensor(type), HostTensor(type)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row) * context;
    data.read(first + rank * rows + row, batch.inputs.as<std::int64_t>().subspan(at, context),
              batch.targets.as<std::int64_t>().subspan(at, context));
  }
  return batch;
}

void write_batch(Program& program, const TokenBatch& batch) {
  program.write_input("inputs", batch.inputs);
  program.write_input("targets", batch.targets);
}

Evaluation::Evaluation(const RunConfig& config, const StepWatcher& watch, const Sequences& data, std::int64_t batches)
    : forward_(config, leave_loss, watch), data_(data) {
  const std::int64_t rows = rows_of(forward_.program()) * forward_.parallel().data;
  batches_ = std::clamp<std::int64_t>(data.count() / rows, 1, batches);
}

double Evaluation::loss(const Program& trained) {
  Program& program = forward_.program();
  std::set<std::string> packed;
  for (const StatePart& part : program.state_parts()) {
    if (!part.is_packed) continue;
    std::vector<std::byte> bytes(part.bytes());
    trained.read_part(part, bytes);
    program.write_part(part, bytes);
    packed.emplace(part.weight());
  }
  for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
    if (!packed.contains(parameter.name)) program.write_input(parameter.name, trained.read_input(parameter.name));
  }
  double sum = 0;
  const std::int64_t ranks = forward_.parallel().data;
  for (std::int64_t batch = 0; batch < batches_; ++batch) {
    write_batch(program, read_batch(program, data_, batch * ranks * rows_of(program), forward_.parallel().rank));
    program.run();
    program.synchronize();
    sum += scalar_of(program.read_output("loss"));
  }
  ProcessGroup* const group = forward_.group();
  if (group == nullptr) return sum / static_cast<double>(batches_);
  double all = 0;
  for (const std::string& text : group->all_gather(std::to_string(std::bit_cast<std::uint64_t>(sum)), "losses"))
    all += std::bit_cast<double>(static_cast<std::uint64_t>(std::stoull(text)));
  return all / static_cast<double>(batches_ * ranks);
}

constexpr auto kReactionNames = enum_names<Reaction>("stop", "skip", "back");

// The most returns to a checkpoint: a run that needs more has another problem.
constexpr int kMostReturns = 3;
// The field of Manifest::run with the recent losses that were no spikes.
constexpr const char* kLosses = "losses";

using Clock = std::chrono::steady_clock;

HostTensor scalar_tensor(double value) {
  HostTensor tensor({DType::fp32, {}});
  tensor.as<float>()[0] = static_cast<float>(value);
  return tensor;
}

class Trainer {
 public:
  Trainer(const TrainingOptions& options, const TrainingEvents& events)
      : options_(options),
        events_(events),
        record_(describe_run(options.config, Experiment::bench)),
        session_(options.config, events.watch, record_),
        program_(session_.ready_program()) {
    rows_ = rows_of(program_) * session_.parallel().data;
    context_ = options.config.workload->describe().context;
    data_ = options.data->fingerprint();
    if (events.on_plan) events.on_plan(record_.memory_bytes.planned_peak.value_or(0));
    gives_norm_ = program_.graph().find_output(kGradientNorm).has_value();
    if (is_first_rank() && program_.graph().find_output(kMicroGradientNorm)) {  // checkpoints have its averages
      const auto micro_batch = static_cast<double>(options.config.workload->describe().batch * context_);
      noise_.emplace(micro_batch, static_cast<double>(rows_ * context_));
    }
    counts_skipped_ = program_.graph().find_input(kSkippedSteps).has_value();
    scales_loss_ = program_.graph().find_input(kLossScale).has_value();
    peak_flops_ = datasheet_rate();
    flops_ = static_cast<double>(options.config.workload->flops(options.config.compile));
    if (options_.validation != nullptr)
      evaluation_.emplace(options.config, events.watch, *options_.validation, options_.evaluation_batches);
    if (options_.resumed) {
      go_on_from(*options_.resumed);
      sequences_ = options_.resumed->manifest.sequences;
    }
    if (!options_.saving) return;
    const std::size_t room = room_of_copy(device_use());
    const std::optional<LoraOptions>& lora = options_.config.compile.lora;
    writer_.emplace(program_, CheckpointOptions{.folder = options_.saving->folder,
                                                .keep = options_.saving->keep,
                                                .group = options_.config.group.get(),
                                                .model = model(),
                                                .lora = lora ? &*lora : nullptr,
                                                .device_room_bytes = room});
    if (writer_->device_bytes() < writer_->needed_device_bytes())
      say(
          fmt::format("checkpoints hold the run up for longer: a copy of the state on the device needs {}, and beside "
                      "the run it has {}",
                      format_bytes(writer_->needed_device_bytes()), format_bytes(room)));
    if (is_first_rank()) history_.emplace(options_.saving->folder, done_);
  }

  TrainingSummary run() {
    TrainingSummary summary;
    summary.first_step = done_ + 1;
    begin_ = Clock::now();
    const std::int64_t sequences_before = sequences_;
    while (done_ < options_.schedule.iterations && summary.ending == Ending::finished) {
      one_step();
      summary.ending = ending();
    }
    if (writer_ && saved_ != done_) save();
    summary.last_step = done_;
    summary.seconds = seconds_since(begin_);
    const auto tokens = static_cast<double>((sequences_ - sequences_before) * context_);
    summary.tokens_per_second = summary.seconds > 0 ? tokens / summary.seconds : 0;
    summary.peak_allocated_bytes =
        static_cast<std::int64_t>(program_.memory_use().peak_allocated_bytes + (writer_ ? writer_->device_bytes() : 0));
    if (noise_) summary.noise_scale = noise_->scale();
    if (writer_) writer_->finish();
    tell_of_checkpoints();
    return summary;
  }

 private:
  bool is_first_rank() const { return session_.parallel().rank == 0; }
  const TransformerConfig* model() const { return options_.config.workload->transformer(); }
  TokenBatch next_batch(std::int64_t first) const {
    return read_batch(program_, *options_.data, first, session_.parallel().rank);
  }
  bool is_last_step() const { return done_ + 1 == options_.schedule.iterations; }
  bool is_last() const { return done_ == options_.schedule.iterations; }
  static bool is_due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

  std::optional<double> datasheet_rate() const {
    const Datasheet* sheet = find_datasheet(session_.device()->name());
    return sheet == nullptr ? std::nullopt
                            : datasheet_flops_per_second(*sheet, name(options_.config.compile.precision));
  }

  DeviceUse device_use() const {
    DeviceUse use{session_.device()->total_memory_bytes(), session_.available_bytes(), session_.ready_peak_bytes(),
                  program_.memory_use().reserved_bytes};
    if (!evaluation_) return use;
    use.peak += evaluation_->forward().peak_bytes();
    use.reserved += evaluation_->forward().program().memory_use().reserved_bytes;
    return use;
  }

  void one_step() {
    const Clock::time_point begin = Clock::now();
    StepReport report;
    report.step = done_ + 1;
    report.learning_rate = options_.schedule.learning_rate(report.step);
    program_.write_input(kLearningRateState, scalar_tensor(report.learning_rate));
    if (batch_.first != sequences_) batch_ = next_batch(sequences_);
    write_batch(program_, batch_);
    program_.run();
    if (!is_last_step()) batch_ = next_batch(sequences_ + rows_);  // beside the run, where the device is another one
    program_.synchronize();
    report.loss = *loss_of(program_);
    if (gives_norm_) report.gradient_norm = scalar_of(program_.read_output(kGradientNorm));
    if (noise_) {
      report.micro_gradient_norm = scalar_of(program_.read_output(kMicroGradientNorm));
      noise_->add(*report.micro_gradient_norm, *report.gradient_norm);
      report.noise_scale = noise_->scale();
    }
    if (counts_skipped_)
      report.skipped_steps = static_cast<std::int64_t>(scalar_of(program_.read_input(kSkippedSteps)));
    report.seconds = seconds_since(begin);
    report.checkpoint_seconds = std::exchange(checkpoint_seconds_, 0);
    report.tokens_per_second = static_cast<double>(rows_ * context_) / report.seconds;
    report.peak_allocated_bytes = static_cast<std::int64_t>(program_.memory_use().peak_allocated_bytes);
    report.first_sequence = options_.data->place(sequences_);
    report.data = data_;
    if (peak_flops_) report.mfu = flops_ / report.seconds / *peak_flops_;
    done_ = report.step;
    sequences_ += rows_;
    report.tokens = sequences_ * context_;
    if (react(report)) return;
    if (evaluation_ && (is_last() || is_due(done_, options_.evaluate_every)))
      report.validation_loss = evaluation_->loss(program_);
    if (history_) history_->add(report);
    if (events_.on_step) events_.on_step(report);
    if (events_.after) events_.after(program_, done_);
    if (writer_ && (is_last() || is_due(done_, options_.saving->every))) save();
    tell_of_checkpoints();
  }

  // Whether the run has gone back. All ranks see the same loss and norm.
  bool react(const StepReport& report) {
    // With a loss scale, overflowing gradients are normal: the step lowers the scale and updates nothing.
    if (!std::isfinite(report.loss) || (!scales_loss_ && !std::isfinite(report.gradient_norm.value_or(0)))) {
      const std::string what = fmt::format("step {}: the loss is {}, the norm of the gradients {}", report.step,
                                           report.loss, report.gradient_norm.value_or(0));
      return react(options_.on_nonfinite, what, "--on-nan");
    }
    if (is_spike(report.loss))
      return react(options_.spikes.reaction,
                   fmt::format("step {}: the loss is {:.4g}, more than {} times the median of the {} before",
                               report.step, report.loss, options_.spikes.factor, losses_.size()),
                   "--on-spike");
    losses_.push_back(report.loss);
    if (losses_.size() > kSpikeWindow) losses_.pop_front();
    if (done_ > returned_from_) returns_ = 0;
    return false;
  }

  bool is_spike(double loss) const {
    if (options_.spikes.factor <= 0 || losses_.size() < kSpikeWindow) return false;
    std::vector<double> sorted(losses_.begin(), losses_.end());
    std::ranges::nth_element(sorted, sorted.begin() + kSpikeWindow / 2);
    return loss > options_.spikes.factor * sorted[kSpikeWindow / 2];
  }

  bool react(Reaction reaction, const std::string& what, std::string_view option) {
    if (reaction == Reaction::skip) {
      say(what + "; it updated nothing");
      return false;
    }
    if (reaction == Reaction::stop) throw_error("{}; {} says what else to do", what, option);
    if (++returns_ > kMostReturns)
      throw_error("{}; the run has gone back {} times without passing it", what, kMostReturns);
    go_back(what);
    return true;
  }

  void go_on_from(const FoundCheckpoint& found) {
    load(program_, found, model());
    done_ = saved_ = found.manifest.step;
    if (noise_) noise_->go_on_from(found.manifest.noise.value_or(GradientNoise::Averages{}));
    const auto losses = found.manifest.run.find(kLosses);
    losses_ = losses == found.manifest.run.end() ? std::deque<double>() : losses->get<std::deque<double>>();
  }

  void go_back(const std::string& what) {
    if (!writer_) throw Error(what + "; there is no checkpoint to go back to: give --save");
    writer_->finish();
    const std::optional<FoundCheckpoint> found = find_newest(options_.saving->folder, options_.config.group.get());
    if (!found) throw Error(what + "; there is no checkpoint to go back to yet");
    returned_from_ = std::max(returned_from_, done_);
    go_on_from(*found);
    say(fmt::format("{}; back to step {}, and on with the next sequences", what, done_));
    if (history_) history_.emplace(options_.saving->folder, done_);
  }

  Ending ending() const {
    const bool is_late = options_.limit_seconds && seconds_since(begin_) > *options_.limit_seconds;
    const bool is_asked = events_.is_asked_to_stop && events_.is_asked_to_stop();
    if (options_.limit_seconds && session_.first_rank_says(is_late)) return Ending::out_of_time;
    return session_.first_rank_says(is_asked) ? Ending::asked : Ending::finished;
  }

  void save() {
    Manifest manifest;
    manifest.step = done_;
    manifest.sequences = sequences_;
    if (noise_) manifest.noise = noise_->averages();
    manifest.run = options_.description;
    if (options_.spikes.factor > 0) manifest.run[kLosses] = losses_;
    const Clock::time_point begin = Clock::now();
    writer_->save(std::move(manifest));
    checkpoint_seconds_ = seconds_since(begin);
    saved_ = done_;
  }

  // A checkpoint that cannot be written does not end the run.
  void tell_of_checkpoints() {
    if (!writer_) return;
    if (const std::optional<std::string> problem = writer_->take_problem()) say(*problem);
  }

  void say(const std::string& sentence) const {
    if (events_.say) events_.say(sentence);
  }

  const TrainingOptions& options_;
  const TrainingEvents& events_;
  Record record_;
  Session session_;
  Program program_;
  std::optional<Evaluation> evaluation_;
  std::optional<CheckpointWriter> writer_;
  std::optional<History> history_;
  std::int64_t rows_ = 0;  // sequences of a step, of all ranks
  std::int64_t context_ = 0;
  std::string data_;  // its fingerprint
  bool gives_norm_ = false, counts_skipped_ = false, scales_loss_ = false;
  std::optional<GradientNoise> noise_;
  TokenBatch batch_;               // of this step, or of the next one
  double checkpoint_seconds_ = 0;  // of the copy behind the last step
  std::optional<double> peak_flops_;
  double flops_ = 0;            // of a step of one rank
  std::int64_t done_ = 0;       // steps
  std::int64_t saved_ = 0;      // the step of the last checkpoint
  std::int64_t sequences_ = 0;  // read, of all ranks
  std::deque<double> losses_;   // the last ones that were no spikes
  int returns_ = 0;             // in a row
  std::int64_t returned_from_ = 0;
  Clock::time_point begin_;
};

}  // namespace

std::string_view name(Reaction reaction) { return kReactionNames[reaction]; }
Reaction reaction_from_name(std::string_view text) { return kReactionNames.parse(text, "unknown reaction '{}'"); }

std::optional<TrainingSummary> train(const TrainingOptions& options, const TrainingEvents& events) {
  std::optional<TrainingSummary> summary;
  if (is_stopped([&] { summary = Trainer(options, events).run(); })) return std::nullopt;
  return summary;
}

}  // namespace ridgepoint::train
