#include "run/peers/peer_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <utility>

#include "core/text/throw_error.h"
#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

ErrorKind kind_from(const std::string& name) {
  if (name == "oom") return ErrorKind::out_of_memory;
  return name == "unsupported" ? ErrorKind::unsupported : ErrorKind::failure;
}

// The counterpart of what Ridgepoint runs: its fused attention, asked for or recognised, is compared with PyTorch's.
std::string_view attention_for(const RunConfig& config) {
  using enum AttentionVariant;
  const std::optional<AttentionVariant> variant = config.workload->describe().attention;
  const bool is_recognised = config.compile.level != Compile::off && (variant == composite || variant == softmax);
  return variant == flash || is_recognised ? "sdpa" : "naive";
}

Json sizes_of(const WorkloadDescription& workload) {
  return {{"layers", workload.model.layers}, {"d_model", workload.model.d_model}, {"d_ff", workload.model.d_ff},
          {"heads", workload.model.heads},   {"vocab", workload.model.vocab},     {"context", workload.context}};
}

std::optional<std::int64_t> bytes_in(const Json& answer, const char* key) {
  const auto found = answer.find(key);
  return found == answer.end() ? std::nullopt : std::optional(found->get<std::int64_t>());
}

constexpr const char* kVariable = "RIDGEPOINT_PYTHON";

std::vector<std::string> candidates(const std::string& named) {
  if (!named.empty()) return {named};
  if (const char* path = std::getenv(kVariable); path != nullptr && *path != '\0') return {path};
  return {"python3", "/usr/bin/python3"};
}

// Throws Error with the reason, without the path.
std::string torch_version_of(const std::string& path, const StopPoint& stop_point) {
  ChildProcess process({path, "-c", "import torch; print(torch.__version__)"});
  const std::optional<std::string> version = process.read_line(stop_point);
  const int exit_code = process.wait();
  if (version && exit_code == 0) return *version;
  const std::string reason = process.last_error_line();
  throw_error("'{}': {}", path, reason.empty() ? fmt::format("exit code {}", exit_code) : reason);
}

using enum TorchMode;

constexpr auto kNames =
    enum_names<TorchMode>("eager", "compile", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs");
constexpr std::array kUsual = {eager, compile, reduce_overhead, max_autotune};
constexpr auto kPeers = enum_names<TorchMode>("torch:eager", "torch:compile", "torch:reduce-overhead",
                                              "torch:max-autotune", "torch:max-autotune-no-cudagraphs");

void add_once(TorchMode mode, std::vector<TorchMode>& modes) {
  if (std::ranges::find(modes, mode) == modes.end()) modes.push_back(mode);
}

}  // namespace

PeerProcess::PeerProcess(const Python& python, const std::filesystem::path& script, StopPoint stop_point)
    : stop_point_(std::move(stop_point)), process_({python.path, script.string()}) {}

Json PeerProcess::ask(const Json& request) {
  const auto command = request.at("command").get<std::string>();
  std::optional<std::string> line;
  if (process_.write_line(dump_json(request))) line = process_.read_line(stop_point_);
  if (!line)
    throw_error("the process of the peer ended before it answered '{}': {}", command, process_.last_error_line());
  const std::string what = fmt::format("the peer's answer to '{}'", command);
  Json answer = parse_json(*line, what);
  if (!answer.is_object()) throw Error(what + " is no JSON object");
  if (!answer.contains("error")) return answer;
  const Json& error = answer["error"];
  throw Error(error.value("message", "the peer failed without a message"), kind_from(error.value("kind", "")));
}

std::string PeerProcess::build(const RunConfig& config, TorchMode mode, const PeerTensors& tensors,
                               std::int64_t threads) {
  const Json answer = ask({{"command", "build"},
                           {"model", sizes_of(config.workload->describe())},
                           {"mode", name(config.compile.mode)},
                           {"dtype", name(config.compile.precision)},
                           {"attention", attention_for(config)},
                           {"compile", name(mode)},
                           {"device", config.device},
                           {"threads", threads},
                           {"weights", tensors.weights.string()},
                           {"expected", tensors.expected.string()}});
  return answer.value("attention", "");
}

PeerCheck PeerProcess::check() {
  const Json answer = ask({{"command", "check"}});
  PeerCheck check;
  check.first_call_ms = answer.at("first_call_ms").get<double>();
  for (const auto& [tensor, difference] : answer.at("differences").items()) {
    constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();
    check.differences[tensor] = difference.is_null() ? kNotFinite : difference.get<double>();
  }
  return check;
}

PeerTimes PeerProcess::run(std::int64_t iterations) {
  const Json answer = ask({{"command", "run"}, {"iterations", iterations}});
  PeerTimes times;
  times.host_ms = answer.at("host_ms").get<std::vector<double>>();
  times.device_ms = answer.at("device_ms").get<std::vector<double>>();
  times.peak_allocated_bytes = bytes_in(answer, "peak_allocated");
  times.peak_reserved_bytes = bytes_in(answer, "peak_reserved");
  return times;
}

Python find_python(const std::string& named, const StopPoint& stop_point) {
  std::vector<std::string> reasons;
  for (const std::string& path : candidates(named)) {
    try {
      return {path, torch_version_of(path, stop_point)};
    } catch (const Error& error) {
      reasons.emplace_back(error.what());
    }
  }
  throw_error(
      "no Python with PyTorch was found ({}); install PyTorch, or name a Python that has it: --python "
      "FILE, or the environment variable {}",
      fmt::join(reasons, "; "), kVariable);
}

std::string_view name(TorchMode mode) { return kNames[mode]; }

std::vector<TorchMode> torch_modes_from(std::string_view text) {
  std::vector<TorchMode> modes;
  for (std::string_view rest = text;; rest.remove_prefix(rest.find(',') + 1)) {
    const std::string_view item = rest.substr(0, rest.find(','));
    if (item == "torch") {
      for (const TorchMode mode : kUsual) add_once(mode, modes);
    } else if (const std::optional<TorchMode> mode = kPeers.find(item)) {
      add_once(*mode, modes);
    } else {
      std::vector<std::string_view> known = {"torch"};
      known.insert(known.end(), kPeers.all().begin(), kPeers.all().end());
      refuse_name(item, "peer '{}' is unknown", known);
    }
    if (item.size() == rest.size()) return modes;
  }
}

}  // namespace ridgepoint
