#include "predict/time/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "core/text/throw_error.h"
#include "ops/collectives.h"

namespace ridgepoint {
namespace {

// The shares of NVLink's rate that NCCL's rings approach with long messages between two H200s: all_reduce, and the
// other collectives. Slower links and links between machines were not measured; one share is assumed for all
// collectives.
constexpr double kShareInside = 0.78, kShareOfOthersOnNvlink = 0.67;
constexpr double kFastestPcie = 64e9;  // bytes per second in one direction, 16 lanes of PCIe 5
constexpr double kShareBetween = 0.85;
constexpr double kLaunchSeconds = 5.5e-6;
constexpr double kLatencyInside = 3e-6;
constexpr double kLatencyBetween = 10e-6;
constexpr std::int64_t kRanksOnMachine = 8;

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kRates[] = {{"TB/s", 1e12},     {"GB/s", 1e9},     {"MB/s", 1e6},
                           {"Tb/s", 1e12 / 8}, {"Gb/s", 1e9 / 8}, {"Mb/s", 1e6 / 8}};
constexpr Unit kTimes[] = {{"us", 1e-6}, {"ms", 1e-3}, {"ns", 1e-9}};

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw_error(ErrorKind::usage, "'{}' {}; write a network as \"8x NVLink 450 GB/s, 400 Gb/s InfiniBand\"", text, why);
}

// Splits "NVLink 450 GB/s" into "NVLink", "450" and "GB/s", and "450GB/s" likewise.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool joins = false;
  for (const char c : text) {
    const bool is_number = (std::isdigit(static_cast<unsigned char>(c)) != 0) || c == '.';
    const bool continues = joins && !words.empty() &&
                           (is_number || std::isdigit(static_cast<unsigned char>(words.back().front())) == 0 ||
                            words.back().find_first_not_of("0123456789.") != std::string::npos);
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      joins = false;
    } else if (continues) {
      words.back() += c;
    } else {
      words.emplace_back(1, c);
      joins = true;
    }
  }
  return words;
}

std::optional<double> number_from(const std::string& word) {
  double value = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_whole = error == std::errc() && stop == word.data() + word.size();
  return is_whole && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

template <std::size_t kCount>
const Unit* find_unit(const Unit (&units)[kCount], std::string_view name) {
  const Unit* found = std::ranges::find(units, name, &Unit::name);
  return found == std::end(units) ? nullptr : found;
}

// Takes the rate and the latency out of the words of a link; the other words are its name.
Link link_from(std::string_view text, const std::vector<std::string>& words, double latency_seconds) {
  Link link{.bytes_per_second = 0, .latency_seconds = latency_seconds};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_negative = words[i].size() > 1 && words[i][0] == '-' && words[i].find_first_of("0123456789") == 1;
    if (is_negative) refuse(text, fmt::format("has the negative number {}", words[i]));
    const std::optional<double> number = number_from(words[i]);
    if (!number) continue;
    const std::string_view unit = i + 1 < words.size() ? std::string_view(words[i + 1]) : std::string_view();
    if (const Unit* rate = find_unit(kRates, unit)) {
      link.bytes_per_second = *number * rate->factor;
    } else if (const Unit* time = find_unit(kTimes, unit)) {
      link.latency_seconds = *number * time->factor;
    } else {
      refuse(text, fmt::format("has the number {} without a unit (GB/s, Gb/s, us)", words[i]));
    }
    ++i;
  }
  if (link.bytes_per_second <= 0) refuse(text, "has no rate");
  return link;
}

// Takes "8x" from the front of the words.
std::optional<std::int64_t> take_count(std::string_view text, std::vector<std::string>& words) {
  const bool is_count =
      words.size() > 1 && words[1].front() == 'x' && std::isdigit(static_cast<unsigned char>(words[0].front())) != 0;
  if (!is_count) return std::nullopt;
  const std::optional<double> count = number_from(words[0]);
  if (!count || *count != std::floor(*count)) refuse(text, fmt::format("has '{}x' ranks on a machine", words[0]));
  words.erase(words.begin());
  words.front().erase(0, 1);
  if (words.front().empty()) words.erase(words.begin());
  return static_cast<std::int64_t>(*count);
}

double levels_of_tree(std::int64_t leaves) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(leaves - 1)));
}

}  // namespace

Network network_from_text(std::string_view text) {
  const std::size_t comma = text.find(',');
  std::vector<std::string> words = words_of(text.substr(0, comma));
  Network network;
  network.ranks_on_machine = take_count(text, words).value_or(kRanksOnMachine);
  network.inside = link_from(text, words, kLatencyInside);
  if (comma == std::string_view::npos) return network;
  if (text.find(',', comma + 1) != std::string_view::npos) refuse(text, "has more than two kinds of links");
  network.between = link_from(text, words_of(text.substr(comma + 1)), kLatencyBetween);
  return network;
}

std::optional<Network> network_of_card(std::optional<double> link_bytes_per_second) {
  if (!link_bytes_per_second) return std::nullopt;
  return Network{.inside = {*link_bytes_per_second, kLatencyInside}, .ranks_on_machine = kRanksOnMachine};
}

bool has_fast_links(const Network& network) { return network.inside.bytes_per_second > kFastestPcie; }

double share_inside(const Network& network, Op op) {
  return has_fast_links(network) && op != Op::all_reduce ? kShareOfOthersOnNvlink : kShareInside;
}

Ring ring_of(const Network& network, std::int64_t ranks, Op op) {
  const std::int64_t machines = (ranks - 1) / network.ranks_on_machine + 1;
  if (machines > 1 && !network.between)
    throw_error(ErrorKind::usage,
                "{} ranks need {} machines of {}, and the network has no links between machines; add them: "
                "--network \"8x NVLink 450 GB/s, 400 Gb/s InfiniBand\"",
                ranks, machines, network.ranks_on_machine);
  Ring ring{.bytes_per_second = share_inside(network, op) * network.inside.bytes_per_second,
            .message_seconds = network.inside.latency_seconds};
  double latency = levels_of_tree(std::min(ranks, network.ranks_on_machine)) * ring.message_seconds;
  if (machines > 1) {
    const auto links = static_cast<double>(ranks - (machines - 1) * network.ranks_on_machine);  // of the last machine
    ring.bytes_per_second = std::min(ring.bytes_per_second, kShareBetween * links * network.between->bytes_per_second);
    ring.message_seconds = std::max(ring.message_seconds, network.between->latency_seconds);
    latency += levels_of_tree(machines) * network.between->latency_seconds;
  }
  ring.overhead_seconds = kLaunchSeconds + (op == Op::all_reduce ? 2 * latency : latency);
  return ring;
}

double collective_seconds(const Network& network, const Graph& graph, const Node& node) {
  const std::int64_t ranks = node.attributes.get<std::int64_t>("ranks");
  if (ranks == 1) return 0;
  const Ring ring = ring_of(network, ranks, node.op);
  const double sending = wire_bytes(graph, node) / ring.bytes_per_second;
  return ring.overhead_seconds + sending + 2 * std::sqrt(ring.message_seconds * sending);
}

}  // namespace ridgepoint
