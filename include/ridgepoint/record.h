// The record of one run: its configuration, its device and its results. Every table, file and report is made of
// records. A record has fields that all experiments share and one section for its own experiment. docs/record.md lists
// the JSON names of the fields; src/measure/record/fields.h is the list that the JSON and CSV code reads.
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

// Incremented when a field changes its meaning or is removed, not when one is added. Older records stay readable.
inline constexpr std::int64_t kRecordSchema = 1;

// A statistic of too few samples (the mean of none, the deviation of one) is NaN; JSON writes null.
struct Statistics {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double mean = kUnknown;
  double std = kUnknown;  // sample standard deviation: divided by n - 1
  double min = kUnknown;
  double max = kUnknown;
  double median = kUnknown;
  // 25, 50, 75 %; linear interpolation, numpy's default
  std::array<double, 3> quartiles = {kUnknown, kUnknown, kUnknown};
  double cv = kUnknown;         // std / mean
  std::vector<double> samples;  // in the order of measurement
};

// `samples` may be empty.
Statistics describe(std::vector<double> samples);

// oom: the run ran out of memory. unsupported: this build or device cannot run it.
enum class RunStatus : std::uint8_t { ok, oom, unsupported, error };
inline constexpr std::array kAllRunStatuses = {RunStatus::ok, RunStatus::oom, RunStatus::unsupported, RunStatus::error};
std::string_view name(RunStatus status);

// The command that measured. bench and profile: one iteration of the mode. attention: one call of attention.
enum class Experiment : std::uint8_t { bench, attention, profile };
inline constexpr std::array kAllExperiments = {Experiment::bench, Experiment::attention, Experiment::profile};
std::string_view name(Experiment experiment);

// Sizes in bytes, times in milliseconds, rates per second. An optional is empty (null in JSON) where the value is not
// known, such as a rate of a run that did not finish.
struct Record {
  std::int64_t schema = kRecordSchema;
  Experiment experiment = Experiment::bench;  // `command` in JSON
  std::string timestamp;                      // start of the run, UTC, 2025-01-31T12:00:00Z
  RunStatus status = RunStatus::ok;

  struct Failure {
    std::string message;  // empty when the run was ok
    // oom: the fields of MemoryShortage (error.h).
    std::optional<std::int64_t> requested_bytes;
    std::optional<std::int64_t> segment_bytes;
    std::optional<std::int64_t> free_bytes;
    std::optional<std::int64_t> fragmented_bytes;
  } error;

  Mode mode = Mode::step;
  Precision dtype = Precision::fp32;
  Compile compile = Compile::off;
  std::optional<AttentionVariant> attention;
  std::optional<AttentionVariant>
      attention_fallback;  // the variant that ran instead of flash where the device has no kernel
  Checkpoint checkpoint = Checkpoint::off;
  std::int64_t batch = 0;
  std::int64_t context = 0;

  WorkloadDescription::Model model;

  struct DeviceUsed {
    std::string kind;  // cpu, cuda, null, reference
    std::string name;  // of the processor or card
    std::int64_t total_memory_bytes = 0;
    std::optional<std::int64_t> memory_limit_bytes;
    std::optional<std::string> instruction_set;  // cpu: the widest that kernels used, avx2 avx512 avx512_bf16 amx
  } device;

  std::int64_t warmup = 0;
  std::int64_t steps = 0;
  std::int64_t seed = 0;
  std::int64_t threads = 0;
  // cpu: the average number of threads, over the timed iterations, that had work but waited for a processor (another
  // program, another virtual machine or a quota held it). Times are too long unless this is near 0.
  std::optional<double> threads_waiting;

  struct Memory {
    std::optional<std::int64_t> peak_allocated;           // blocks, after 512-byte rounding
    std::optional<std::int64_t> peak_reserved;            // segments taken from the device
    std::optional<std::int64_t> peak_requested;           // before rounding
    std::optional<std::int64_t> before_backward;          // allocated when the forward and loss phases ended
    std::optional<std::int64_t> planned_peak;             // peak_allocated as the null device predicts it
    std::optional<std::int64_t> planned_before_backward;  // before_backward, predicted; command attention only
    // Of a card, by its driver, at the end of the run; empty for other devices.
    std::optional<std::int64_t> device_used;       // in use by all processes
    std::optional<std::int64_t> device_at_start;   // in use before the run: this process's context, other processes
    std::optional<std::int64_t> device_libraries;  // the rest that is not reserved: code of kernels, libraries
    std::optional<std::int64_t> allocated_at_end;  // when the last iteration had ended
  } memory_bytes;

  struct Build {
    std::string version;
    std::string compiler;
    std::string revision;
  } build;

  struct LossScaling {                          // fp16 steps only
    std::optional<double> scale;                // after the last step
    std::optional<std::int64_t> skipped_steps;  // in warm-up and timed iterations, because a gradient was not finite
  };

  struct TrainingStep {
    std::optional<std::string> weights;  // the file of the parameters; empty: drawn from the seed
    bool detect_anomaly = false;         // every result was checked for NaN and infinity, so the times mean nothing
    Statistics time_ms;                  // host clock: one iteration, synchronisation included
    Statistics device_time_ms;           // device clock, the same iterations
    std::vector<double> warmup_ms;       // host clock, the iterations before the timed ones
    LossScaling loss_scaling;
    std::optional<double> tokens_per_second;          // batch * context / time_ms.mean
    std::optional<std::int64_t> flops_per_step;       // of one iteration of this mode, counted on the model
    std::optional<double> achieved_flops_per_second;  // flops_per_step / time_ms.mean
    std::optional<double> mfu;                        // share of the datasheet rate
    std::optional<double> ceiling_flops_per_second;   // matmul rate measured on this device for this dtype
    std::optional<double> ceiling_share;              // share of that rate
  };
  std::optional<TrainingStep> training_step;  // bench, profile

  // `context` queries; model.heads heads of size model.d_model / model.heads.
  struct AttentionCall {
    std::optional<std::int64_t> keys;
    std::optional<bool> causal;
    Statistics forward_ms;   // device clock, runs of forward only
    Statistics backward_ms;  // device clock, from the end of forward to the end of backward
    // Forward counts 4 B H S K D operations (half of that with a causal mask), backward 2.5 times as many; median
    // times.
    std::optional<double> forward_flops_per_second;
    std::optional<double> backward_flops_per_second;
  };
  std::optional<AttentionCall> attention_call;  // attention
};

// One line of JSON with all keys, in schema order; an absent section has null values. Numbers read back to the same
// bits. NaN and infinity become null.
std::string to_json(const Record& record);
// The inverse of to_json(). Unknown fields are skipped; absent fields keep their default. Throws Error naming the
// field that has the wrong type, or the schema when it is newer than kRecordSchema.
Record record_from_json(std::string_view json);

// The records of a file with a JSON array or JSON Lines. Throws Error naming the file and the record.
std::vector<Record> read_records(const std::filesystem::path& path);
// A JSON array with one record a line.
std::string to_json(std::span<const Record> records);

}  // namespace ridgepoint
