#include "measure/machine/datasheet.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace ridgepoint {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::optional<double> kNone;

constexpr std::optional<double> tera(double count) { return count * 1e12; }

// Sources: NVIDIA's datasheet of each product, and for GeForce the whitepapers of the architectures (GA102, AD102). A
// rate that is published with sparsity only is halved.
constexpr Datasheet kSheets[] = {
    // card, names, memory, bytes a second, fp32, tf32, bf16, fp16, fp8
    {"T4", "t4", 16 * kGiB, 320e9, tera(8.1), kNone, kNone, tera(65), kNone},
    {"A100 40GB PCIe", "a100 pcie 40gb|a100 40gb pcie", 40 * kGiB, 1555e9, tera(19.5), tera(156), tera(312), tera(312),
     kNone},
    {"A100 40GB SXM", "a100 sxm4 40gb|a100 40gb", 40 * kGiB, 1555e9, tera(19.5), tera(156), tera(312), tera(312),
     kNone},
    {"A100 80GB PCIe", "a100 80gb pcie|a100 pcie 80gb", 80 * kGiB, 1935e9, tera(19.5), tera(156), tera(312), tera(312),
     kNone},
    {"A100 80GB SXM", "a100 sxm4 80gb|a100 80gb|a100", 80 * kGiB, 2039e9, tera(19.5), tera(156), tera(312), tera(312),
     kNone},
    {"RTX 3090", "rtx 3090", 24 * kGiB, 936e9, tera(35.6), tera(35.6), tera(71), tera(71), kNone},
    {"RTX A4500", "rtx a4500|a4500", 20 * kGiB, 640e9, tera(23.7), tera(47.3), tera(94.6), tera(94.6), kNone},
    {"L4", "l4", 24 * kGiB, 300e9, tera(30.3), tera(60), tera(121), tera(121), tera(242.5)},
    {"L40S", "l40s", 48 * kGiB, 864e9, tera(91.6), tera(183), tera(362), tera(362), tera(733)},
    {"RTX 4090", "rtx 4090", 24 * kGiB, 1008e9, tera(82.6), tera(82.6), tera(165.2), tera(165.2), tera(330.3)},
    {"H100 PCIe", "h100 pcie", 80 * kGiB, 2000e9, tera(51), tera(378), tera(756), tera(756), tera(1513)},
    {"H100 SXM", "h100 80gb hbm3|h100 sxm5|h100", 80 * kGiB, 3350e9, tera(67), tera(494.7), tera(989.4), tera(989.4),
     tera(1978.9)},
    {"H100 NVL", "h100 nvl", 94 * kGiB, 3900e9, tera(60), tera(417.5), tera(835.5), tera(835.5), tera(1670.5)},
    {"H200 SXM", "h200|h200 sxm5", 141 * kGiB, 4800e9, tera(67), tera(494.7), tera(989.4), tera(989.4), tera(1978.9)},
    {"H200 NVL", "h200 nvl", 141 * kGiB, 4800e9, tera(60), tera(417.5), tera(835.5), tera(835.5), tera(1670.5)},
    {"B200", "b200", 180 * kGiB, 7700e9, tera(75), tera(1100), tera(2250), tera(2250), tera(4500)},
};

// Lower case, single spaces, without words that do not identify the GPU.
std::string normalised(std::string_view name) {
  constexpr std::array<std::string_view, 5> kIdle = {"nvidia", "tesla", "geforce", "quadro", "gpu"};
  std::string result;
  std::string word;
  const auto finish_word = [&] {
    if (!word.empty() && std::ranges::find(kIdle, word) == kIdle.end()) result += (result.empty() ? "" : " ") + word;
    word.clear();
  };
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') {
      finish_word();
    } else {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  finish_word();
  return result;
}

bool lists(std::string_view aliases, std::string_view name) {
  while (true) {
    const std::size_t bar = aliases.find('|');
    if (aliases.substr(0, bar) == name) return true;
    if (bar == std::string_view::npos) return false;
    aliases.remove_prefix(bar + 1);
  }
}

}  // namespace

std::span<const Datasheet> datasheets() { return kSheets; }

const Datasheet* find_datasheet(std::string_view name) {
  const std::string wanted = normalised(name);
  for (const Datasheet& sheet : kSheets) {
    if (normalised(sheet.card) == wanted || lists(sheet.aliases, wanted)) return &sheet;
  }
  return nullptr;
}

std::optional<double> datasheet_flops_per_second(const Datasheet& sheet, std::string_view dtype) {
  if (dtype == "fp32") return sheet.fp32;
  if (dtype == "tf32") return sheet.tf32;
  if (dtype == "bf16") return sheet.bf16;
  if (dtype == "fp16") return sheet.fp16;
  if (dtype == "fp8") return sheet.fp8;
  return std::nullopt;
}

}  // namespace ridgepoint
