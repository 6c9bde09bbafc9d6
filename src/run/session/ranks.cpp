#include "run/session/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <span>
#include <sstream>

#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "ops/collectives.h"
#include "predict/forecast.h"
#include "run/machine/host.h"
#include "runtime/device/communicator.h"

namespace ridgepoint {
namespace {

double median_alone(RunConfig config, const StepWatcher& watch) {
  config.compile.parallel = {};
  config.group = nullptr;
  Record record;  // not read: only the times are
  Session session(config, watch, record);
  const ProgramPlan plan = session.plan();
  Program program = session.make(plan);
  session.initialise(program);
  const std::unique_ptr<DeviceTimer> timer = session.device()->make_timer();
  return describe(session.iterate([&](std::int64_t) { return Session::run_once(program, *timer); }).host_ms).median;
}

std::string first_difference(const std::string& of_first, std::size_t rank, const std::string& of_rank) {
  std::istringstream first(of_first), other(of_rank);
  std::string line, other_line;
  do {
    if (!std::getline(first, line)) line = "nothing more";
    if (!std::getline(other, other_line)) other_line = "nothing more";
  } while (line == other_line);
  return fmt::format("rank 0 has {} where rank {} has {}", line, rank, other_line);
}

// Whether each rank has a card that no other has.
bool have_own_cards(const RunConfig& config) {
  std::string mine;
  succeed_on_all_ranks(config.group.get(), "whether devices open",
                       [&] { mine = place_of_card(*open_device(config.device, config.device_options)); });
  const std::vector<std::string> all = config.group->all_gather(mine, "the cards of ranks");
  return std::ranges::all_of(all,
                             [&](const std::string& one) { return !one.empty() && std::ranges::count(all, one) == 1; });
}

}  // namespace

void succeed_on_all_ranks(ProcessGroup* group, std::string_view what, const std::function<void()>& stage) {
  if (group == nullptr) return stage();
  std::exception_ptr failure;
  std::string mine;  // the kind and the message
  try {
    stage();
  } catch (const Error& error) {
    failure = std::current_exception();
    mine = static_cast<char>('0' + static_cast<int>(error.kind())) + std::string(error.what());
  } catch (const std::exception& error) {
    failure = std::current_exception();
    mine = static_cast<char>('0' + static_cast<int>(ErrorKind::failure)) + std::string(error.what());
  }
  const std::vector<std::string> all = group->all_gather(mine, what, ProcessGroup::TimeLimit::none);
  if (failure) std::rethrow_exception(failure);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    throw_error(static_cast<ErrorKind>(all[rank][0] - '0'), "rank {}: {}", rank, all[rank].substr(1));
  }
}

void describe_ranks(const ParallelOptions& options, const Graph& compiled, ParallelSection& section) {
  if (!options.is_parallel()) return;
  section.data = options.data;
  section.shard = name(options.shard);
  if (options.reduce_dtype) section.reduce_dtype = name(*options.reduce_dtype);
  section.overlap = options.overlap;
  section.bucket_bytes = options.bucket_bytes;
  std::int64_t collectives = 0;
  double bytes = 0;
  for (const NodeId id : compiled.order()) {
    const Node& node = compiled.node(id);
    if (op_class(node.op) != OpClass::collective) continue;
    ++collectives;
    bytes += wire_bytes(compiled, node);
  }
  section.collectives = collectives;
  section.wire_bytes = std::llround(bytes);
}

void describe_choice(const ParallelChoice& choice, std::optional<std::int64_t> capacity_bytes,
                     ParallelSection& section) {
  if (choice.reason.empty()) return;
  section.choice = choice.reason;
  section.tried_capacity_bytes = capacity_bytes;
  for (const ParallelTrial& trial : choice.trials) {
    section.tried_shard.emplace_back(name(trial.shard));
    section.tried_bucket_bytes.push_back(trial.bucket_bytes);
    section.tried_peak_reserved.push_back(static_cast<std::int64_t>(trial.reserved_bytes));
    section.tried_ms.push_back(trial.ms.value_or(Statistics::kUnknown));
  }
}

void require_same_choice(ProcessGroup* group, const ParallelOptions& options) {
  if (group == nullptr) return;
  const std::vector<std::string> all =
      group->all_gather(fmt::format("--shard {} with buckets of {}", name(options.shard),
                                    format_bytes(static_cast<std::uint64_t>(options.bucket_bytes))),
                        "choices");
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw_error(ErrorKind::usage,
                "the devices of the ranks differ: rank 0 chose {}, and rank {} {}; give --shard and bucket", all[0],
                rank, all[rank]);
  }
}

std::vector<std::string> collectives_of(const Program& program) {
  const Graph& graph = program.graph();
  std::vector<std::string> tensors;
  int number = 0;
  for (const LaunchInfo& launch : program.launches()) {
    const Node& node = graph.node(launch.node);
    if (op_class(node.op) != OpClass::collective) continue;
    const std::string_view scope = graph.scope_name(node);
    const std::string name_of_node =
        fmt::format("{} {}{}", name(node.op), ++number, scope.empty() ? "" : fmt::format(" ({})", scope));
    const std::span<const Value> sent = sent_operands(node);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const TensorType& type = graph.type(sent[i]);
      tensors.push_back(fmt::format("{}, tensor {} of {}: {} of {}", name_of_node, i + 1, sent.size(), type.elements(),
                                    name(type.dtype)));
    }
  }
  return tensors;
}

void require_same_collectives(ProcessGroup& group, const std::vector<std::string>& mine) {
  const std::string text = fmt::format("{}", fmt::join(mine, "\n"));
  const std::vector<std::string> digests =
      group.all_gather(std::to_string(std::hash<std::string>()(text)), "digests of collectives");
  if (std::ranges::count(digests, digests.front()) == std::ssize(digests)) return;
  const std::vector<std::string> all = group.all_gather(text, "collectives");
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw_error(
        "the ranks would exchange different tensors, because their devices, builds or environments "
        "differ: {}",
        first_difference(all[0], rank, all[rank]));
  }
}

std::size_t available_on_ranks(const Device& device, ProcessGroup* group) {
  std::size_t bytes = available_memory_bytes(device);
  if (group == nullptr) return bytes;
  const std::optional<std::size_t> free_bytes = device.free_memory_bytes();
  if (device.kind() == "cpu" && free_bytes)
    bytes = std::min(bytes, *free_bytes / static_cast<std::size_t>(group->ranks_on_host()));
  for (const std::string& text : group->all_gather(std::to_string(bytes), "available memory"))
    bytes = std::min<std::size_t>(bytes, std::stoull(text));
  return bytes;
}

void gather_times(ProcessGroup& group, double median_ms, ParallelSection& section) {
  for (const std::string& text : group.all_gather(fmt::format("{}", median_ms), "times"))
    section.rank_ms.push_back(std::stod(text));
  const auto [fastest, slowest] = std::ranges::minmax(section.rank_ms);
  section.slowest_ms = slowest;
  section.spread = 1 - fastest / slowest;
}

void time_alone(const RunConfig& config, const StepWatcher& watch, ParallelSection& section) {
  // Each rank alone would need the whole states on the host, where the run had only its part.
  const bool offloads = config.chooses_offload() || config.compile.offload != Offload::none;
  if (offloads && (config.choose_sharding || config.compile.parallel.shard != Sharding::none)) return;
  ProcessGroup& group = *config.group;
  const bool has_own_card = have_own_cards(config);
  std::string problem, mine;
  if (group.rank() == 0 || has_own_card) {
    try {
      mine = fmt::format("{}", median_alone(config, watch));
    } catch (const OutOfMemory&) {  // only the parts of several ranks fit
    } catch (const Error& error) {
      const bool lacks_host_memory = config.compile.offload != Offload::none && error.kind() == ErrorKind::unsupported;
      if (!lacks_host_memory) problem = error.what();
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  // However long the ranks take: they end, or the others are ended.
  for (const std::string& other : group.all_gather(problem, "errors of ranks alone", ProcessGroup::TimeLimit::none))
    if (!other.empty()) throw Error("one rank alone: " + other);
  std::vector<std::string> all = group.all_gather(mine, "times of ranks alone");
  if (!has_own_card) all.resize(1);
  if (std::ranges::count(all, "") > 0) return;
  for (const std::string& text : all) section.rank_alone_ms.push_back(std::stod(text));
  section.alone_ms = std::ranges::max(section.rank_alone_ms);
  section.efficiency = *section.alone_ms / *section.slowest_ms;
}

}  // namespace ridgepoint
