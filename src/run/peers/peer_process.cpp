#include "run/peers/peer_process.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "ridgepoint/error.h"

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

}  // namespace

PeerProcess::PeerProcess(const Python& python, const std::filesystem::path& script, StopPoint stop_point)
    : stop_point_(std::move(stop_point)), process_({python.path, script.string()}) {}

Json PeerProcess::ask(const Json& request) {
  const auto command = request.at("command").get<std::string>();
  std::optional<std::string> line;
  if (process_.write_line(dump_json(request))) line = process_.read_line(stop_point_);
  if (!line) {
    throw Error(
        fmt::format("the process of the peer ended before it answered '{}': {}", command, process_.last_error_line()));
  }
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

}  // namespace ridgepoint
