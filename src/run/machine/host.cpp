#include "run/machine/host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/text/text.h"

namespace ridgepoint {
namespace {

constexpr std::string_view kArithmeticSets[] = {
    "sse4_2",      "neon",        "asimd",       "avx", "f16c", "fma",  "avx2",     "avx_vnni", "avx512f",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "sve", "sve2", "bf16", "amx_bf16", "amx_int8"};

std::vector<std::string> known_sets(const std::string& flags) {
  std::istringstream words(flags);
  std::set<std::string> present;
  for (std::string word; words >> word;) present.insert(word);
  std::vector<std::string> result;
  for (const std::string_view set : kArithmeticSets) {
    if (present.contains(std::string(set))) result.emplace_back(set);
  }
  return result;
}

}  // namespace

Host parse_cpuinfo(std::istream& text) {
  Host host;
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  std::string socket;
  for (std::string line; std::getline(text, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view key = trimmed(std::string_view(line).substr(0, colon));
    const std::string value(trimmed(std::string_view(line).substr(colon + 1)));
    if (key == "processor") ++host.threads;
    if (key == "physical id") sockets.insert(socket = value);
    if (key == "core id") cores.emplace(socket, value);  // physical id stands before it
    const bool is_flags = key == "flags" || key == "Features";
    if (is_flags && host.instruction_sets.empty()) host.instruction_sets = known_sets(value);
  }
  host.sockets = static_cast<int>(sockets.size());
  host.cores = static_cast<int>(cores.size());
  return host;
}

Host describe_host() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return parse_cpuinfo(cpuinfo);
}

std::optional<double> fastest_processor_mhz(const std::filesystem::path& folder) {
  std::error_code error;
  std::optional<double> fastest;
  for (const auto& processor : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream file(processor.path() / "cpufreq" / "scaling_cur_freq");
    double khz = 0;
    if (file >> khz) fastest = std::max(fastest.value_or(0), khz * 1e-3);
  }
  return fastest;
}

std::string place_of_card(const Device& device) {
  const std::optional<std::string> address = device.facts().pci_bus_id;
  if (!address) return "";
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{} {}", host.data(), *address);
}

}  // namespace ridgepoint
