// The record of one run: its settings and its results. Every table, file and report is a view of records. A record has
// fields that all experiments share and one section for its own experiment. docs/record.md lists the fields by their
// JSON names; src/record/settings.def and measures.def have a row for each.
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

#include "ridgepoint/core/precision.h"
#include "ridgepoint/memory/allocator_kind.h"
#include "ridgepoint/models/attention_variant.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/ops/optimizer.h"

namespace ridgepoint {

// Raised when a field changes its meaning or is removed, not when one is added. Older records stay readable.
inline constexpr std::int64_t kRecordSchema = 1;

// A statistic that is not defined (the mean of no sample, the std of one) is NaN; JSON writes null.
struct Statistics {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double mean = kUnknown;
  double std = kUnknown;  // sample standard deviation: divided by n - 1
  double min = kUnknown;
  double max = kUnknown;
  double median = kUnknown;
  // 25, 50, 75 %; interpolated linearly between samples, as numpy does by default
  std::array<double, 3> quartiles = {kUnknown, kUnknown, kUnknown};
  double cv = kUnknown;  // std / mean
  // Half the width of the 95 % confidence interval of the median, as a share of the median; unknown below 6 samples.
  double median_half_width = kUnknown;
  std::vector<double> samples;  // in the order of the runs
};

// `samples` may be empty.
Statistics describe(std::vector<double> samples);

// oom: the device had too little free memory. unsupported: this build or device cannot run it.
enum class RunStatus : std::uint8_t { ok, oom, unsupported, error };
inline constexpr std::array kAllRunStatuses = {RunStatus::ok, RunStatus::oom, RunStatus::unsupported, RunStatus::error};
std::string_view name(RunStatus status);

// The experiment. bench, profile and memory: a training step, or a part of it (Mode). attention: one call of attention.
// plan: a training step that does not run.
enum class Experiment : std::uint8_t { bench, attention, profile, plan, memory };
inline constexpr std::array kAllExperiments = {Experiment::bench, Experiment::attention, Experiment::profile,
                                               Experiment::plan, Experiment::memory};
std::string_view name(Experiment experiment);

// How far the times of a row can be trusted; docs/timing.md has the rules.
enum class TimingVerdict : std::uint8_t { steady, drifting, bimodal, outliers, throttled, disturbed, too_few };
inline constexpr std::array kAllTimingVerdicts = {
    TimingVerdict::steady,    TimingVerdict::drifting,  TimingVerdict::bimodal, TimingVerdict::outliers,
    TimingVerdict::throttled, TimingVerdict::disturbed, TimingVerdict::too_few};
std::string_view name(TimingVerdict verdict);

// Why the timed iterations ended. steps: their number was reached. interval: the confidence interval of the median was
// narrow enough. time_limit: their time was over.
enum class SamplingEnd : std::uint8_t { steps, interval, time_limit };
inline constexpr std::array kAllSamplingEnds = {SamplingEnd::steps, SamplingEnd::interval, SamplingEnd::time_limit};
std::string_view name(SamplingEnd end);

// The verdict on the samples of a row and its figures, and the state of the machine around the timed iterations, never
// within one. Empty fields are not known: too few samples, or a machine that does not tell.
struct TimingSection {
  std::optional<TimingVerdict> verdict;
  std::optional<std::string> judged;  // whose samples: time_ms; of a call of attention: forward_ms or backward_ms
  std::optional<SamplingEnd> ended_by;
  std::optional<double> until;  // the median_half_width that was asked for
  std::optional<double> until_limit_seconds;
  std::optional<double> drift;    // from the first sample to the last, by the Theil-Sen slope; a share of the median
  std::optional<double> drift_z;  // of the Mann-Kendall test
  std::optional<double> mode_distance;    // between the means of the two groups that split the samples best; a share
  std::optional<double> mode_separation;  // share of the samples' variance that the split explains
  std::optional<double> outlier_share;    // of the samples
  std::optional<double> outlier_effect;   // of outliers on the mean, as a share of the median
  std::optional<double> stolen_share;     // of the processors' time: given to other virtual machines
  std::optional<std::vector<double>> cpu_mhz;  // of the fastest processor, before and after
  // NVIDIA GPUs: readings before, between and after the timed iterations, at most five a second.
  std::optional<std::vector<double>> sm_clock_mhz;
  std::optional<std::vector<double>> memory_clock_mhz;
  std::optional<std::vector<double>> power_watts;
  std::optional<std::vector<double>> temperature_celsius;
  std::optional<std::vector<std::string>> throttle_reasons;  // in any of the readings, by NVML's names
  std::optional<double> joules;                              // of an iteration, what the GPU uses between two included
};

struct LossScalingState {                     // fp16 steps only
  std::optional<double> scale;                // after the last step
  std::optional<std::int64_t> skipped_steps;  // warm-up included; skipped for gradients that were not finite
};

// The stages of a first run in a process of its own, in milliseconds; their sum is `total`. Empty for other runs.
struct FirstCallSection {
  std::optional<double> total;
  std::optional<double> context;         // the device is opened
  std::optional<double> graph;           // the workload builds its graph
  std::optional<double> passes;          // the graph is compiled
  std::optional<double> plan;            // schedule, buffers and the forecast of memory
  std::optional<double> libraries;       // shared libraries are loaded and started
  std::optional<double> kernels;         // kernels are made or awaited, and their code is loaded
  std::optional<double> choices;         // algorithms are measured
  std::optional<double> memory;          // the buffers that stay are allocated
  std::optional<double> initial_values;  // parameters and data are made and written
  std::optional<double> first_run;       // the run itself
  std::optional<double> other;           // the rest
};

// Of a run of another engine, beside one of Ridgepoint.
struct PeerSection {
  std::optional<std::string> attention;     // its implementation: sdpa, naive
  std::optional<double> first_call_ms;      // of the function that is timed, its compilation included
  std::optional<double> difference;         // the largest relative L2 difference of a tensor from Ridgepoint's
  std::optional<std::string> worst_tensor;  // which has it
  std::optional<double> ridgepoint_ms;      // the median of Ridgepoint's iterations in the rounds between the peer's
};

// Medians of the device's milliseconds in each phase of an iteration; empty for a phase that the mode lacks, and where
// phases were not timed.
struct PhaseMedians {
  std::optional<double> forward = {};
  std::optional<double> loss = {};
  std::optional<double> recompute = {};
  std::optional<double> backward = {};
  std::optional<double> optimizer = {};
};

// Of a run on several ranks, which are numbered from 0. Other fields of a time are rank 0's.
struct ParallelSection {
  std::optional<std::int64_t> data;          // the ranks of data parallelism; empty: one rank
  std::optional<std::string> shard;          // what each rank keeps a part of: none, optimizer, gradients, parameters
  std::optional<std::string> reduce_dtype;   // in which gradients are summed; empty: that of backward
  std::optional<bool> overlap;               // gradients are summed beside backward, not behind it
  std::optional<std::int64_t> bucket_bytes;  // the least bytes of a bucket of gradients
  // Where shard or bucket_bytes was chosen: why, and from what. One of the trials is the choice.
  std::optional<std::string> choice;
  std::optional<std::int64_t> tried_capacity_bytes;  // that a run may take; empty: unlimited
  std::vector<std::string> tried_shard;
  std::vector<std::int64_t> tried_bucket_bytes;
  std::vector<std::int64_t> tried_peak_reserved;
  std::vector<double> tried_ms;                    // predicted; NaN: not known
  std::optional<std::int64_t> collectives;         // in an iteration
  std::optional<std::int64_t> copied_collectives;  // of them, those that copy engines send, at least in part
  std::optional<std::int64_t> wire_bytes;          // that a rank sends in an iteration, if ranks form a ring
  std::vector<double> rank_ms;                     // the median of each rank, by the host's clock
  std::optional<double> slowest_ms;                // the largest of them
  std::optional<double> spread;                    // of the largest over the smallest, as a share of the largest
  std::vector<double> rank_alone_ms;               // the same on one rank: of all with a card each, or of rank 0
  std::optional<double> alone_ms;                  // the largest of them
  std::optional<double> efficiency;                // alone_ms / slowest_ms: 1 if the ranks cost one another nothing
  // Of rank 0, in iterations under the profiler after the timed ones; empty where there is none.
  std::optional<double> communication_ms;  // how long collectives run in an iteration
  std::optional<double> exposed_ms;        // of that, how long a kernel waits and none runs
  std::optional<double> hidden;            // the share that is not exposed
};

struct TrainingStepSection {
  std::optional<std::string> weights;  // the file of the parameters; empty: random from the seed
  bool detect_anomaly = false;         // every result was checked for NaN and infinity: the times are not valid
  Statistics time_ms;                  // by the host's clock, synchronisation with the device included
  Statistics device_time_ms;           // the same iterations by the device's clock
  PhaseMedians phase_ms;               // of the same iterations
  std::vector<double> warmup_ms;       // by the host's clock; not part of time_ms
  PeerSection peer;
  FirstCallSection first_call_ms;
  std::optional<bool> cold_cache;  // of a first run: whether it began with an empty cache of kernels and choices
  LossScalingState loss_scaling;
  ParallelSection parallel;
  std::optional<double> tokens_per_second;          // of all ranks: accumulate * batch * context / time_ms.mean of each
  std::optional<std::int64_t> flops_per_step;       // of the model, for one iteration of this mode on one rank
  std::optional<double> achieved_flops_per_second;  // flops_per_step / time_ms.mean
  std::optional<double> mfu;                        // achieved / datasheet rate
  std::optional<double> ceiling_flops_per_second;   // measured matmul rate of this device and dtype
  std::optional<double> ceiling_share;              // achieved / ceiling
};

// `context` is the number of queries; model.d_model is the width of all model.heads heads together, of which those of
// keys and values are model.kv_heads.
struct AttentionCallSection {
  std::optional<std::int64_t> keys;
  std::optional<bool> causal;
  std::optional<std::int64_t> window;  // keys that a query attends to, itself included; empty: all before it
  std::optional<double> soft_cap;
  Statistics forward_ms;   // by the device's clock: forward alone
  Statistics backward_ms;  // by the device's clock: backward, in runs of forward + backward
  // From the medians; 4 B H S K D operations forward, half as many if causal, those of a window's pairs with one, 2.5
  // times as many backward.
  std::optional<double> forward_flops_per_second;
  std::optional<double> backward_flops_per_second;
};

// What a run would need, whether it fits, and how long an iteration would take.
struct PlanSection {
  std::optional<std::string> as;               // whose allocations: ridgepoint, torch, torch-fused
  std::optional<bool> keep_output;             // of PyTorch: the loop holds the output of the iteration before
  std::optional<std::string> card;             // whose memory the run is to fit in; empty: a limit, or nothing
  std::optional<std::int64_t> capacity_bytes;  // that the run may take
  std::optional<bool> fits;
  std::optional<std::int64_t> room_bytes;  // capacity less peak reserved, 0 at least if it fits; negative: missing
  std::optional<std::string> fitted;       // what was made as large as fits: batch, context, layers
  std::optional<double> predicted_ms;      // of an iteration on the card; empty without a card that the plan knows
  std::optional<std::string> predicted_problem;  // why a plan for a card has no time, or one that is not sure
  std::optional<double> predicted_error;         // of predicted_ms, as a share of it; empty where nothing was measured
  std::optional<double> predicted_low_ms, predicted_high_ms;  // where a measured time should lie
  std::optional<double> predicted_tokens_per_second, predicted_mfu;
  // Of several ranks: how long the collectives of an iteration run, and how long other kernels wait for them.
  std::optional<double> predicted_communication_ms;
  std::optional<double> predicted_exposed_ms;
  PhaseMedians predicted_phase_ms;  // their sum is predicted_ms
  // What the peak would be more with all logits at once; empty where they exist at once.
  std::optional<std::int64_t> loss_chunks_save_bytes;
};

// The schedule of a run that was to fit into a memory: what it takes, gives and costs.
struct ScheduleSection {
  std::optional<double> ms;              // of an iteration, as predicted, or by floors
  std::optional<std::string> floors_of;  // whose times these are where none is predicted
  std::optional<double> bound_ms;        // no schedule of those that were searched takes less
  std::optional<double> gap;             // 1 - bound_ms / ms
  std::optional<double> next_gib_saves_ms;
  std::optional<std::string> problem;  // why nothing fits
  // What was chosen, the bytes that it gives, and the milliseconds that it costs, against a step that keeps everything.
  std::vector<std::string> parts;
  std::vector<std::int64_t> part_bytes;
  std::vector<double> part_ms;
};

// The phase of the highest peak, and what is allocated then.
struct PeakSection {
  std::optional<std::string> peak_phase;
  struct Categories {
    std::optional<std::int64_t> parameter, gradient, activation, optimizer_state, temporary, workspace, data;
  } peak_by_category;
  struct Phases {
    std::optional<std::int64_t> forward, loss, recompute, backward, optimizer;
  } peak_by_phase;  // the most allocated in each phase
};

// Sizes in bytes, times in milliseconds, rates per second. An optional is empty (null in JSON) if the value is unknown:
// rates of a run that did not finish, a datasheet rate that is not published.
struct Record {
  std::int64_t schema = kRecordSchema;
  Experiment experiment = Experiment::bench;  // `command` in JSON
  std::string engine = "ridgepoint";          // what ran: ridgepoint, or a peer: torch 2.11.0 reduce-overhead
  std::string timestamp;                      // start of the run, UTC, 2025-01-31T12:00:00Z
  RunStatus status = RunStatus::ok;

  struct Failure {
    std::string message;  // empty if the run was ok
    // oom: the failing request, the segment that it needs, the free memory for segments, and free memory in blocks that
    // are too small.
    std::optional<std::int64_t> requested_bytes;
    std::optional<std::int64_t> segment_bytes;
    std::optional<std::int64_t> free_bytes;
    std::optional<std::int64_t> fragmented_bytes;
  } error;

  Mode mode = Mode::step;
  Precision dtype = Precision::fp32;
  Compile compile = Compile::off;
  AllocatorKind allocator = AllocatorKind::caching;
  std::optional<AttentionVariant> attention;
  std::optional<AttentionVariant> attention_fallback;  // what ran instead if the device has no flash kernel
  std::optional<bool> captured;                // whether the timed runs repeated captured launches; empty: nothing ran
  std::optional<std::string> capture_problem;  // why the device could not capture them
  std::vector<std::string> unfused_bodies;     // of fused nodes that ran op by op because they did not compile
  Checkpoint checkpoint = Checkpoint::none;
  std::optional<std::int64_t> checkpoint_segment;  // blocks of a segment; empty: the policy has no segments
  std::optional<std::string> checkpoint_blocks;    // auto: the policies found, first block first: 20 block + 12 none
  std::optional<double> checkpoint_gap;        // auto: the share of the recomputation that a better choice might avoid
  std::optional<std::int64_t> fit_into_bytes;  // the memory that the schedule was chosen for
  ScheduleSection schedule;
  std::optional<std::int64_t> recomputed_flops;  // in the recompute phase of an iteration; empty without a backward
  std::optional<std::int64_t> recomputed_bytes;  // that its ops read and write
  std::optional<std::int64_t> loss_chunk_rows;   // rows of logits that exist at a time; empty: all of them
  std::int64_t batch = 0;
  std::int64_t context = 0;

  // Mode step only.
  std::optional<Optimizer> optimizer;
  std::optional<double> momentum;  // of SGD
  std::optional<double> weight_decay;
  std::vector<std::string> no_decay;  // the patterns
  std::optional<double> clip_norm;
  std::optional<double> z_loss;     // also of modes without a step
  std::optional<std::string> lora;  // as to_text() of its options
  Offload offload = Offload::none;
  std::optional<std::int64_t> host_memory_limit_bytes;
  std::optional<std::string> offload_folder;

#define RIDGEPOINT_COMPILE_SETTING(type, member, initial) type member = initial;
#define RIDGEPOINT_RUN_SETTING(type, member, ...) type member = {};
#include "ridgepoint/ops/run_settings.def"
#undef RIDGEPOINT_COMPILE_SETTING
#undef RIDGEPOINT_RUN_SETTING

  WorkloadDescription::Model model;                  // its parameters include adapters
  std::optional<std::int64_t> trainable_parameters;  // modes with backward

  struct DeviceUsed {
    std::string kind;                                // cpu, cuda, null, reference
    std::string name;                                // of the processor or GPU
    std::optional<std::int64_t> total_memory_bytes;  // unless it is endless: a null device without a limit
    std::optional<std::int64_t> memory_limit_bytes;
    std::optional<std::string> instruction_set;  // cpu: the widest used: avx2, avx512, avx512_bf16, amx
  } device;

  std::int64_t threads = 0;
  // cpu: the average number of threads that waited for a processor during the timed iterations, because of another
  // program, another virtual machine or a quota. The times are too long unless it is near 0.
  std::optional<double> threads_waiting;

  TimingSection timing;

  struct Memory {
    std::optional<std::int64_t> peak_allocated;           // blocks, after 512-byte rounding
    std::optional<std::int64_t> peak_reserved;            // segments taken from the device; the size of an arena
    std::optional<std::int64_t> peak_requested;           // before rounding
    std::optional<std::int64_t> liveness_lower_bound;     // the most bytes that are live at once, by the plan
    std::optional<std::int64_t> before_backward;          // allocated at the end of forward and loss
    std::optional<std::int64_t> planned_peak;             // the prediction of peak_allocated
    std::optional<std::int64_t> planned_before_backward;  // the prediction of before_backward; attention only
    // GPUs only: counted by the driver at the end of the run.
    std::optional<std::int64_t> device_used;       // by all processes
    std::optional<std::int64_t> device_at_start;   // part of it: used before the run, with this process's context
    std::optional<std::int64_t> device_libraries;  // part of it: code of kernels, and memory of libraries
    std::optional<std::int64_t> allocated_at_end;  // after the last iteration
    std::optional<std::int64_t> host;              // of the host's memory, which --offload takes
    std::optional<std::int64_t> disk;              // of the file in --offload-folder
  } memory_bytes;

  struct Build {
    std::string version;
    std::string compiler;
    std::string revision;
  } build;

  using TrainingStep = TrainingStepSection;
  std::optional<TrainingStep> training_step;  // bench, profile

  using AttentionCall = AttentionCallSection;
  std::optional<AttentionCall> attention_call;  // attention

  std::optional<PlanSection> plan;   // plan
  std::optional<PeakSection> peaks;  // plan, memory
};

// One line of JSON with all fields in schema order; fields of a missing section have the value for "unknown". Numbers
// read back to the same bits; NaN and infinity become null.
std::string to_json(const Record& record);
// The inverse. Skips unknown fields; missing fields keep their default. Throws Error with the name of a field of the
// wrong type, or if the schema is newer than kRecordSchema.
Record record_from_json(std::string_view json);

// The records of a file with a JSON array or JSON Lines. Throws Error with the names of the file and the record.
std::vector<Record> read_records(const std::filesystem::path& path);
// One JSON array, one record a line.
std::string to_json(std::span<const Record> records);

}  // namespace ridgepoint
