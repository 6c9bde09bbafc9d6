#include "run/peers/peer_benchmark.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <span>
#include <utility>

#include "core/files/embedded_file.h"
#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "interchange/safetensors.h"
#include "ridgepoint/runtime/program.h"
#include "run/session/run_record.h"
#include "run/session/steps/step_benchmark.h"
#include "run/timing/timing_quality.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;

constexpr std::int64_t kMostRounds = 5;

// The timed iterations of a round.
std::int64_t iterations_of(std::int64_t round, std::int64_t rounds, std::int64_t steps) {
  return steps * (round + 1) / rounds - steps * round / rounds;
}

void append(std::vector<double>& values, std::span<const double> more) {
  values.insert(values.end(), more.begin(), more.end());
}

void require_agreement(const PeerCheck& check, Precision precision, PeerSection& section) {
  const double tolerance = peer_tolerance(precision);
  for (const auto& [tensor, difference] : check.differences) {
    // A NaN is worse than any number.
    if (section.difference && !(difference > *section.difference) && !std::isnan(difference)) continue;
    section.difference = difference;
    section.worst_tensor = tensor;
    if (std::isnan(difference)) break;
  }
  if (!section.difference) throw Error("the peer compared no tensor");
  if (*section.difference <= tolerance) return;
  throw Error(std::isnan(*section.difference)
                  ? fmt::format("'{}' is not finite in the peer or in Ridgepoint", *section.worst_tensor)
                  : fmt::format("'{}' of the peer differs from Ridgepoint's by {:.2g} (relative L2 error), beyond {:g}",
                                *section.worst_tensor, *section.difference, tolerance));
}

void judge_rounds(std::span<const double> host_ms, Record& record) {
  record.timing = judge_timing(host_ms, {}, record.threads_waiting);
  record.timing.judged = "time_ms";
  record.timing.ended_by = SamplingEnd::steps;
}

// Ridgepoint's program, and its iterations in the rounds with all peers.
class Side {
 public:
  Side(Session& session, Program& program)
      : session_(session), program_(program), timer_(session.device()->make_timer()) {}

  Session& session() { return session_; }
  std::size_t held_bytes() const { return program_.memory_use().reserved_bytes; }
  // The times by the host's clock.
  std::vector<double> run(std::int64_t iterations) {
    Session::run_once(program_, *timer_);
    std::vector<double> round;
    for (std::int64_t i = 0; i < iterations; ++i) {
      const Session::Elapsed elapsed = Session::run_once(program_, *timer_);
      round.push_back(elapsed.host_ms);
      device_ms_.push_back(elapsed.device_ms);
    }
    append(host_ms_, round);
    return round;
  }
  // The verdict is on the iterations of all rounds. The state of the machine is not read around rounds.
  void record(Record& record) {
    if (host_ms_.empty()) return;
    Record::TrainingStep& step = *record.training_step;
    judge_rounds(host_ms_, record);
    step.time_ms = describe(std::move(host_ms_));
    step.device_time_ms = describe(std::move(device_ms_));
  }

 private:
  Session& session_;
  Program& program_;
  std::unique_ptr<DeviceTimer> timer_;
  std::vector<double> host_ms_, device_ms_;
};

// Alternates rounds of the two and fills the times of the peer's record.
void time_rounds(const RunConfig& config, Side& ours, PeerProcess& peer, Record& record) {
  Record::TrainingStep& step = *record.training_step;
  const std::int64_t rounds = std::min(kMostRounds, config.steps);
  std::vector<double> our_ms, host_ms, device_ms;
  for (std::int64_t round = 0; round < rounds; ++round) {
    ours.session().enter(Stage::measuring_peer, round, rounds);
    const std::int64_t iterations = iterations_of(round, rounds, config.steps);
    append(our_ms, ours.run(iterations));
    peer.run(1);
    const PeerTimes times = peer.run(iterations);
    append(host_ms, times.host_ms);
    append(device_ms, times.device_ms);
    record.memory_bytes.peak_allocated = times.peak_allocated_bytes;
    record.memory_bytes.peak_reserved = times.peak_reserved_bytes;
  }
  judge_rounds(host_ms, record);
  step.time_ms = describe(std::move(host_ms));
  step.device_time_ms = describe(std::move(device_ms));
  step.peer.ridgepoint_ms = describe(std::move(our_ms)).median;
}

void measure_peer(const RunConfig& config, const Python& python, TorchMode mode, const PeerFiles& files,
                  const PeerTensors& tensors, Side& ours, Record& record) {
  Session& session = ours.session();
  session.enter(Stage::measuring_peer);
  Record::TrainingStep& step = *record.training_step;
  PeerProcess peer(python, files.script(), session.stop_point(Stage::measuring_peer));
  try {
    step.peer.attention = peer.build(config, mode, tensors, record.threads);
    const PeerCheck check = peer.check();
    step.peer.first_call_ms = check.first_call_ms;
    require_agreement(check, config.compile.precision, step.peer);
    if (config.warmup > 0) step.warmup_ms = peer.run(config.warmup).host_ms;
    time_rounds(config, ours, peer, record);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    throw_error(ErrorKind::out_of_memory, "{} (beside Ridgepoint's program, which holds {})", error.what(),
                format_bytes(ours.held_bytes()));
  }
}

Record describe_peer(const RunConfig& config, const Python& python, TorchMode mode) {
  Record record = describe_run(config, Experiment::bench);
  record.engine = fmt::format("torch {} {}", python.torch_version, name(mode));
  if (config.weights) record.training_step->weights = config.weights->source;
  record.training_step->flops_per_step = config.workload->flops(config.compile);
  return record;
}

// The files for peers, or why they could not be made.
struct Preparation {
  PeerTensors tensors;
  std::exception_ptr failure;
};

// Empty if the watcher stopped it.
std::optional<Preparation> prepare(const RunConfig& config, PeerFiles& files, const StepWatcher& watch) {
  Preparation made;
  const bool stopped = is_stopped([&] {
    try {
      made.tensors = files.write(config, watch);
    } catch (const std::exception&) {
      made.failure = std::current_exception();
    }
  });
  return stopped ? std::nullopt : std::optional(made);
}

// Copies Ridgepoint's failure to a record without a result.
void share_failure(const Record& ours, Record& peer) {
  if (ours.status == RunStatus::ok || peer.training_step->peer.ridgepoint_ms || peer.status != RunStatus::ok) return;
  peer.status = ours.status;
  peer.error.message = "not measured, because Ridgepoint's run failed";
}

std::string description_of_weights(const RunConfig& config) {
  const WorkloadDescription::Model model = config.workload->describe().model;
  return fmt::format("{} {} {} {} {} {}", model.layers, model.d_model, model.d_ff, model.vocab, config.seed,
                     config.weights ? config.weights->source : "");
}

// A tensor of the file, and how to read it from a program that has run.
struct WrittenTensor {
  TensorDeclaration declaration;
  bool is_input;
};

std::vector<WrittenTensor> sources_of(const Graph& graph) {
  std::vector<WrittenTensor> sources;
  for (const NodeId id : graph.inputs(Role::data)) {
    const Node& node = graph.node(id);
    sources.push_back({{input_name(node), graph.type(node.outputs[0])}, true});
  }
  for (const Output& output : graph.outputs()) {
    const bool is_result = output.name == "logits" || output.name == "loss" || output.name.starts_with("grad.");
    if (is_result) sources.push_back({{output.name, {DType::fp32, graph.type(output.value).shape}}, false});
  }
  return sources;
}

HostTensor read(const Program& program, const WrittenTensor& source) {
  const std::string& name = source.declaration.name;
  return source.is_input ? program.read_input(name) : convert(program.read_output(name), DType::fp32);
}

}  // namespace

double peer_tolerance(Precision precision) {
  switch (precision) {
    case Precision::fp32: return 1e-4;
    case Precision::tf32:
    case Precision::fp16: return 2e-2;
    case Precision::bf16: return 1e-1;
    case Precision::fp8: break;  // PyTorch has no autocast to it
  }
  throw Error("this precision has no tolerance for peers");
}

std::optional<std::vector<Record>> measure_with_peers(const RunConfig& config, const PeerOptions& options,
                                                      PeerFiles& files, CeilingCache& ceilings,
                                                      const StepWatcher& watch) {
  std::vector<Record> peers;
  for (const TorchMode mode : options.modes) peers.push_back(describe_peer(config, options.python, mode));
  const std::optional<Preparation> prepared = prepare(config, files, watch);
  if (!prepared) return std::nullopt;
  std::optional<Record> ours = measure_step(config, ceilings, watch, [&](Session& session, Program& program) {
    Side side(session, program);
    for (std::size_t i = 0; i < peers.size(); ++i) {
      describe_device(peers[i], *session.device());
      record_outcome(peers[i], [&] {
        if (prepared->failure) std::rethrow_exception(prepared->failure);
        measure_peer(config, options.python, options.modes[i], files, prepared->tensors, side, peers[i]);
      });
      fill_rates(peers[i], *config.workload);
    }
    side.record(session.record());
  });
  if (!ours) return std::nullopt;
  std::vector<Record> records = {*ours};
  for (Record& peer : peers) {
    share_failure(*ours, peer);
    fill_ceiling(peer, ours->training_step->ceiling_flops_per_second);
    records.push_back(std::move(peer));
  }
  return records;
}

// The scripts of bench/peers/pytorch, by cmake/embed.cmake.
std::span<const EmbeddedFile> peer_scripts();

PeerFiles::PeerFiles() : tensors_{folder_ / "weights.safetensors", folder_ / "expected.safetensors"} {
  for (const EmbeddedFile& script : peer_scripts()) write_file(folder_ / script.name, script.text);
}

PeerTensors PeerFiles::write(const RunConfig& config, const StepWatcher& watch) {
  const StopPoint stop_point = [&] {
    if (watch && !watch({StepProgress::Stage::initialising})) stop_run();
  };
  if (const std::string wanted = description_of_weights(config); wanted != written_weights_) {
    written_weights_.clear();
    write_weights(config, stop_point);
    written_weights_ = wanted;
  }
  write_results(config, watch);
  return tensors_;
}

void PeerFiles::write_weights(const RunConfig& config, const StopPoint& stop_point) {
  const std::vector<ParameterDeclaration> parameters = parameters_of(*config.workload);
  std::vector<TensorDeclaration> declarations;
  for (const auto& [parameter, type] : parameters) declarations.push_back({parameter, type});
  write_safetensors(tensors_.weights, declarations,
                    [&](std::size_t i) { return initial_value(config, parameters[i], stop_point); });
}

void PeerFiles::write_results(RunConfig config, const StepWatcher& watch) {
  if (config.compile.mode == Mode::step) config.compile.mode = Mode::forward_backward;
  if (config.compile.mode == Mode::training_forward) config.compile.mode = Mode::forward;
  config.compile.offload = offload_in(config.compile.mode, config.compile.offload);
  config.compile.keep = {.results = true, .gradients = true};
  Record record;  // not read: the results are tensors
  Session session(config, watch, record);
  Program program = session.ready_program();
  program.run();
  program.synchronize();
  const std::vector<WrittenTensor> sources = sources_of(program.graph());
  std::vector<TensorDeclaration> declarations;
  for (const WrittenTensor& source : sources) declarations.push_back(source.declaration);
  write_safetensors(tensors_.expected, declarations, [&](std::size_t i) { return read(program, sources[i]); });
}

}  // namespace ridgepoint
