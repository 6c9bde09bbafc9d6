#include "backends/cuda/profiling/cupti_records.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

namespace ridgepoint::cuda {
namespace {

// The name of a copy by its CUpti_ActivityMemcpyKind.
const char* copy_name(std::uint8_t kind) {
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD) return "copy host to device";
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) return "copy device to host";
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP) return "copy to another device";
  return kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD ? "copy device to device" : "copy";
}

// The position of the parenthesis that opens the parameter list at the end of a demangled name, or npos.
std::size_t parameter_list(const std::string& name) {
  if (name.empty() || name.back() != ')') return std::string::npos;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return i;
  }
  return std::string::npos;
}

}  // namespace

std::string readable_kernel_name(const char* name) {
  if (name == nullptr) return "";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                              &std::free);
  if (status != 0 || demangled == nullptr) return name;
  std::string text = demangled.get();
  text.resize(std::min(parameter_list(text), text.size()));
  return text.starts_with("void ") ? text.substr(5) : text;
}

// New toolkits add fields at the end of records; all headers from 12.4 on have these versions.
void CuptiRecords::add(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return add_kernel(reinterpret_cast<const CUpti_ActivityKernel9&>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY: return add_copy(reinterpret_cast<const CUpti_ActivityMemcpy5&>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return add_copy(reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record));
    case CUPTI_ACTIVITY_KIND_MEMSET: return add_fill(reinterpret_cast<const CUpti_ActivityMemset4&>(record));
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME: return add_call(reinterpret_cast<const CUpti_ActivityAPI&>(record));
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& link = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      external_[link.correlationId] = link.externalId;
      return;
    }
    default: return;
  }
}

template <typename Record>
void CuptiRecords::add_timed(Activity activity, const Record& record) {
  if (record.start == 0 || record.end == 0) {
    ++untimed_;
    return;
  }
  activity.start_ns = steady(record.start);
  activity.duration_ns = static_cast<std::int64_t>(record.end - std::min(record.start, record.end));
  pending_.push_back({std::move(activity), record.correlationId, record.graphNodeId});
}

void CuptiRecords::add_kernel(const CUpti_ActivityKernel9& record) {
  Activity activity;
  activity.name = readable_kernel_name(record.name);
  activity.stream = record.streamId;
  activity.grid = {record.gridX, record.gridY, record.gridZ};
  activity.block = {record.blockX, record.blockY, record.blockZ};
  activity.registers = record.registersPerThread;
  activity.shared_bytes = record.staticSharedMemory + record.dynamicSharedMemory;
  add_timed(std::move(activity), record);
}

template <typename Record>
void CuptiRecords::add_copy(const Record& record) {
  Activity activity;
  activity.name = copy_name(record.copyKind);
  activity.kind = ActivityKind::copy;
  activity.stream = record.streamId;
  add_timed(std::move(activity), record);
}

void CuptiRecords::add_fill(const CUpti_ActivityMemset4& record) {
  Activity activity;
  activity.name = "fill";
  activity.kind = ActivityKind::fill;
  activity.stream = record.streamId;
  add_timed(std::move(activity), record);
}

// A runtime call and its driver call may share an id: the outer one counts.
void CuptiRecords::add_call(const CUpti_ActivityAPI& record) {
  if (record.start == 0 || record.end == 0) return;
  const Call found{steady(record.start), steady(record.end)};
  const auto [entry, is_new] = calls_.try_emplace(record.correlationId, found);
  if (is_new) return;
  entry->second.begin_ns = std::min(entry->second.begin_ns, found.begin_ns);
  entry->second.end_ns = std::max(entry->second.end_ns, found.end_ns);
}

const HostLaunch* CuptiRecords::launch_of(std::uint32_t correlation, std::span<const HostLaunch> launches) const {
  const auto external = external_.find(correlation);
  if (external != external_.end() && external->second < launches.size()) return &launches[external->second];
  const auto call = calls_.find(correlation);
  if (call == calls_.end()) return nullptr;
  // The middle of the call is compared, because the two clocks differ by less than half of a call's microseconds.
  const std::int64_t middle_ns = std::midpoint(call->second.begin_ns, call->second.end_ns);
  const auto after = std::ranges::upper_bound(launches, middle_ns, {}, &HostLaunch::begin_ns);
  if (after == launches.begin()) return nullptr;
  const HostLaunch& candidate = *(after - 1);
  return middle_ns <= candidate.end_ns ? &candidate : nullptr;
}

std::uint32_t CuptiRecords::launch_index(const Pending& pending, const HostLaunch& launch, const GraphNodes& nodes) {
  if (pending.graph_node == 0) return launch.launch;
  const auto node = nodes.find(pending.graph_node);
  return node == nodes.end() ? kNoLaunch : node->second;
}

std::size_t CuptiRecords::launches_heard_of(std::span<const HostLaunch> launches, const GraphNodes& nodes) const {
  std::set<std::pair<const HostLaunch*, std::uint32_t>> found;
  for (const Pending& pending : pending_) {
    const HostLaunch* launch = launch_of(pending.correlation, launches);
    if (launch != nullptr) found.emplace(launch, launch_index(pending, *launch, nodes));
  }
  return found.size();
}

std::vector<Activity> CuptiRecords::activities(std::span<const HostLaunch> launches, const GraphNodes& nodes) const {
  std::vector<Activity> result;
  result.reserve(pending_.size());
  for (const Pending& pending : pending_) {
    Activity& activity = result.emplace_back(pending.activity);
    const HostLaunch* launch = launch_of(pending.correlation, launches);
    if (launch != nullptr) {
      activity.run = launch->run;
      activity.launch = launch_index(pending, *launch, nodes);
      activity.call_start_ns = launch->begin_ns;
      activity.call_duration_ns = launch->end_ns - launch->begin_ns;
    } else {
      activity.call_start_ns = activity.start_ns;
    }
    const auto call = calls_.find(pending.correlation);
    if (call != calls_.end()) {
      activity.call_start_ns = call->second.begin_ns;
      activity.call_duration_ns = call->second.end_ns - call->second.begin_ns;
    }
  }
  std::ranges::stable_sort(result, {}, &Activity::start_ns);
  return result;
}

}  // namespace ridgepoint::cuda
