#include "run/session/run_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "backends/null/null_device.h"
#include "core/build_info.h"
#include "core/threads/parallel.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

void fail(Record& record, RunStatus status, std::string message) {
  record.status = status;
  record.error.message = std::move(message);
}

RunStatus status_of(const Error& error) {
  if (error.kind() == ErrorKind::out_of_memory) return RunStatus::oom;
  return error.kind() == ErrorKind::unsupported ? RunStatus::unsupported : RunStatus::error;
}

}  // namespace

Record begin_record(Experiment experiment, const std::string& device, const DeviceOptions& options) {
  Record record;
  record.experiment = experiment;
  if (experiment == Experiment::attention) {
    record.attention_call.emplace();
  } else {
    record.training_step.emplace();
  }
  if (experiment == Experiment::plan || experiment == Experiment::memory) record.peaks.emplace();
  record.timestamp = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()));
  record.device.kind = device.substr(0, device.find(':'));
  if (options.memory_limit_bytes) {
    record.device.memory_limit_bytes = static_cast<std::int64_t>(*options.memory_limit_bytes);
  }
  record.threads = options.threads;
  record.build = {std::string(version()), std::string(compiler()), std::string(revision())};
  return record;
}

void describe_device(Record& record, const Device& device) {
  record.device.name = device.name();
  const std::size_t total_bytes = device.total_memory_bytes();
  if (total_bytes < kUnlimitedBytes) record.device.total_memory_bytes = static_cast<std::int64_t>(total_bytes);
  record.device.instruction_set = device.facts().instruction_set;
  // A plan for the processor depends on them; a plan for a card, like a card, has one thread that launches.
  const bool is_of_card = device.facts().compute_capability.has_value();
  record.threads = device.kind() == "cpu" || (device.kind() == "null" && !is_of_card) ? thread_count() : 1;
}

void describe_wait(Record& record, const ProcessorWait& wait) {
  if (record.device.kind != "cpu") return;
  record.threads_waiting = wait.threads_waiting();
  warn_if_busy(record.threads_waiting, record.threads);
}

void record_outcome(Record& record, const std::function<void()>& stages) {
  try {
    stages();
  } catch (const OutOfMemory& error) {
    fail(record, RunStatus::oom, error.what());
    const MemoryShortage& shortage = error.shortage();
    record.error.requested_bytes = static_cast<std::int64_t>(shortage.requested_bytes);
    record.error.segment_bytes = static_cast<std::int64_t>(shortage.segment_bytes);
    record.error.free_bytes = static_cast<std::int64_t>(shortage.free_bytes);
    record.error.fragmented_bytes = static_cast<std::int64_t>(shortage.fragmented_bytes);
  } catch (const std::bad_alloc&) {
    // A failure of this program, so it is not known whether the run fits.
    fail(record, RunStatus::error, "the host is out of memory; choose a smaller model, batch or context");
  } catch (const Error& error) {
    fail(record, status_of(error), error.what());
  } catch (const std::exception& error) {
    fail(record, RunStatus::error, error.what());
  }
}

void fill_rates(Record& record, const Workload& workload) {
  Record::TrainingStep& step = *record.training_step;
  const double seconds = step.time_ms.mean / 1e3;
  if (!(seconds > 0)) return;
  if (workload.unit() == "tokens")
    step.tokens_per_second = static_cast<double>(workload.units()) * static_cast<double>(record.accumulate) *
                             static_cast<double>(step.parallel.data.value_or(1)) / seconds;
  if (!step.flops_per_step) return;
  step.achieved_flops_per_second = static_cast<double>(*step.flops_per_step) / seconds;
  const Datasheet* sheet = find_datasheet(record.device.name);
  if (sheet == nullptr) return;
  if (const std::optional<double> rate = datasheet_flops_per_second(*sheet, name(record.dtype))) {
    step.mfu = *step.achieved_flops_per_second / *rate;
  }
}

void fill_ceiling(Record& record, const std::optional<double>& ceiling_flops_per_second) {
  Record::TrainingStep& step = *record.training_step;
  step.ceiling_flops_per_second = ceiling_flops_per_second;
  if (ceiling_flops_per_second && step.achieved_flops_per_second) {
    step.ceiling_share = *step.achieved_flops_per_second / *ceiling_flops_per_second;
  }
}

}  // namespace ridgepoint
