// The record of one run: what was asked, on what, what came out. Every table, file and report is a view of records. A
// record is what all experiments have in common and a section for the experiment that it is of. docs/record.md lists
// the fields as JSON names them; src/measure/record/fields.h is the one list that JSON, CSV and reading derive from.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/attention_variant.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/precision.h"
#include "ridgepoint/workload.h"

namespace ridgepoint {

// Raised when a field changes its meaning or leaves; new fields do not raise it. Older records stay readable.
inline constexpr std::int64_t kRecordSchema = 1;

// A statistic no sample supports (the mean of none, the deviation of one) is NaN; JSON writes it as null.
struct Statistics {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double mean = kUnknown;
  double std = kUnknown;  // of a sample: divided by n - 1
  double min = kUnknown;
  double max = kUnknown;
  double median = kUnknown;
  // 25, 50, 75 %; between samples interpolated linearly, numpy's default
  std::array<double, 3> quartiles = {kUnknown, kUnknown, kUnknown};
  double cv = kUnknown;         // std / mean
  std::vector<double> samples;  // in the order they were taken
};

// `samples` may be empty.
Statistics describe(std::vector<double> samples);

// oom: the run asked for more memory than the device had left. unsupported: this build or device cannot run it.
enum class RunStatus : std::uint8_t { ok, oom, unsupported, error };
inline constexpr std::array kAllRunStatuses = {RunStatus::ok, RunStatus::oom, RunStatus::unsupported, RunStatus::error};
std::string_view name(RunStatus status);

// What was measured. bench and profile: a training step, or the part of one that its mode says. attention: one call of
// attention by itself.
enum class Experiment : std::uint8_t { bench, attention, profile };
inline constexpr std::array kAllExperiments = {Experiment::bench, Experiment::attention, Experiment::profile};
std::string_view name(Experiment experiment);

// Sizes in bytes, times in milliseconds, rates per second. An optional is empty (null in JSON) where nothing is
// known: rates of a run that did not finish, a datasheet rate nobody published.
struct Record {
  std::int64_t schema = kRecordSchema;
  Experiment experiment = Experiment::bench;  // `command` in JSON
  std::string timestamp;                      // start of the run, UTC, 2025-01-31T12:00:00Z
  RunStatus status = RunStatus::ok;

  struct Failure {
    std::string message;  // empty when the run was ok
    // oom: what was asked for, the segment that it would take, what was left to take segments from, and what was free
    // in blocks that were too small.
    std::optional<std::int64_t> requested_bytes;
    std::optional<std::int64_t> segment_bytes;
    std::optional<std::int64_t> free_bytes;
    std::optional<std::int64_t> fragmented_bytes;
  } error;

  Mode mode = Mode::step;
  Precision dtype = Precision::fp32;
  Compile compile = Compile::off;
  std::optional<AttentionVariant> attention;
  std::optional<AttentionVariant> attention_fallback;  // what flash ran as where the device has no kernel for it
  Checkpoint checkpoint = Checkpoint::off;
  std::int64_t batch = 0;
  std::int64_t context = 0;

  WorkloadDescription::Model model;

  struct DeviceUsed {
    std::string kind;  // cpu, cuda, null, reference
    std::string name;  // the processor's or card's own
    std::int64_t total_memory_bytes = 0;
    std::optional<std::int64_t> memory_limit_bytes;
    std::optional<std::string> instruction_set;  // cpu: the widest that kernels used, avx2 avx512 avx512_bf16 amx
  } device;

  std::int64_t warmup = 0;
  std::int64_t steps = 0;
  std::int64_t seed = 0;
  std::int64_t threads = 0;
  // cpu: how many of its threads, on the average over the timed iterations, had work and no processor, because another
  // program, another virtual machine or a quota had it. Anything but nearly 0 makes the times too long.
  std::optional<double> threads_waiting;

  struct Memory {
    std::optional<std::int64_t> peak_allocated;           // blocks, after 512-byte rounding
    std::optional<std::int64_t> peak_reserved;            // segments taken from the device
    std::optional<std::int64_t> peak_requested;           // as asked, before rounding
    std::optional<std::int64_t> before_backward;          // allocated when the forward and loss phases ended
    std::optional<std::int64_t> planned_peak;             // peak_allocated as the null device predicts it
    std::optional<std::int64_t> planned_before_backward;  // and before_backward; command attention only
    // Of a card, as its driver counts, at the end of the run; empty for devices that do not count.
    std::optional<std::int64_t> device_used;      // all of it, whoever holds it
    std::optional<std::int64_t> device_at_start;  // of that, the context of this process, and other processes
    std::optional<std::int64_t>
        device_libraries;  // of that, neither the above nor reserved: kernels' code, libraries' own
    std::optional<std::int64_t> allocated_at_end;  // when the last iteration had ended
  } memory_bytes;

  struct Build {
    std::string version;
    std::string compiler;
    std::string revision;
  } build;

  struct LossScaling {                          // fp16 steps only
    std::optional<double> scale;                // after the last step
    std::optional<std::int64_t> skipped_steps;  // of warm-up and timed ones, for gradients that were not finite
  };

  struct TrainingStep {
    std::optional<std::string> weights;  // the file that the parameters came from; empty: made from the seed
    bool detect_anomaly = false;         // every result was looked at for NaN and infinity: the times mean nothing
    Statistics time_ms;                  // host clock around one iteration and the wait for the device
    Statistics device_time_ms;           // the device's own clock around the same iterations
    std::vector<double> warmup_ms;       // host clock, the iterations before; never part of time_ms
    LossScaling loss_scaling;
    std::optional<double> tokens_per_second;          // batch * context / time_ms.mean
    std::optional<std::int64_t> flops_per_step;       // of one iteration of this mode: the model's, however it is run
    std::optional<double> achieved_flops_per_second;  // flops_per_step / time_ms.mean
    std::optional<double> mfu;                        // share of the datasheet rate
    std::optional<double> ceiling_flops_per_second;   // matmul rate measured on this device for this dtype
    std::optional<double> ceiling_share;              // share of that rate
  };
  std::optional<TrainingStep> training_step;  // bench, profile

  // `context` queries, model.heads heads that are model.d_model wide together.
  struct AttentionCall {
    std::optional<std::int64_t> keys;
    std::optional<bool> causal;
    Statistics forward_ms;   // the device's own clock: forward alone
    Statistics backward_ms;  // from the end of forward to the end of backward, in runs of both
    // 4 B H S K D operations forward, half of that where causal, 2.5 times as many backward, by the medians.
    std::optional<double> forward_flops_per_second;
    std::optional<double> backward_flops_per_second;
  };
  std::optional<AttentionCall> attention_call;  // attention
};

// One line of JSON, keys in schema order, those of a section that is not there with what is not known, numbers that
// read back to the same bits. NaN and infinity become null.
std::string to_json(const Record& record);
// The inverse. Fields this build does not know are skipped, absent ones keep their default. Throws Error naming the
// field that has the wrong type, or the schema when it is newer than kRecordSchema.
Record record_from_json(std::string_view json);

// The records of a JSON array or JSON Lines file, whatever its name. Throws Error naming the file and the record.
std::vector<Record> read_records(const std::filesystem::path& path);
// As one JSON array, one record a line.
std::string to_json(std::span<const Record> records);

}  // namespace ridgepoint
