#include "predict/cards/datasheet.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>

#include "core/text/text.h"

namespace ridgepoint {
namespace {

constexpr std::optional<double> kNone;

constexpr std::optional<double> tera(double count) { return count * 1e12; }

// The memory of a GPU as CUDA reports it: the datasheet's memory less the part that the driver keeps.
constexpr std::int64_t gib(double count) { return static_cast<std::int64_t>(count * 1073741824.0); }

// Sources: NVIDIA's datasheet of each product; for GeForce, and for the numbers of multiprocessors, the whitepapers of
// the architectures; for compute capabilities, NVIDIA's list "CUDA GPUs". A rate that is published with sparsity only
// is halved. Memory is the total capacity in PyTorch's out-of-memory messages under recent Linux drivers, where ECC is
// on as delivered; other drivers differ by up to 0.2 GiB.
constexpr Datasheet kSheets[] = {
    // card, names, compute capability, multiprocessors, memory, bytes a second, fp32, tf32, bf16, fp16, fp8
    {"Titan Xp", "titan xp", 61, 30, gib(11.91), 547.6e9, tera(12.1), kNone, kNone, kNone, kNone},
    {"V100 16GB", "v100 sxm2 16gb|v100 16gb", 70, 80, gib(15.78), 900e9, tera(15.7), kNone, kNone, tera(125), kNone,
     150e9},
    {"V100 32GB", "v100 sxm2 32gb|v100 32gb|v100", 70, 80, gib(31.73), 900e9, tera(15.7), kNone, kNone, tera(125),
     kNone, 150e9},
    {"T4", "t4", 75, 40, gib(14.56), 320e9, tera(8.1), kNone, kNone, tera(65), kNone},
    {"Quadro RTX 8000", "8000", 75, 72, gib(47.45), 672e9, tera(16.3), kNone, kNone, tera(130.5), kNone},
    {"A100 40GB PCIe", "a100 pcie 40gb|a100 40gb pcie", 80, 108, gib(39.38), 1555e9, tera(19.5), tera(156), tera(312),
     tera(312), kNone},
    {"A100 40GB SXM", "a100 sxm4 40gb|a100 40gb", 80, 108, gib(39.49), 1555e9, tera(19.5), tera(156), tera(312),
     tera(312), kNone, 300e9},
    {"A100 80GB PCIe", "a100 80gb pcie|a100 pcie 80gb", 80, 108, gib(79.25), 1935e9, tera(19.5), tera(156), tera(312),
     tera(312), kNone},
    {"A100 80GB SXM", "a100 sxm4 80gb|a100 80gb|a100", 80, 108, gib(79.25), 2039e9, tera(19.5), tera(156), tera(312),
     tera(312), kNone, 300e9},
    {"A800 80GB PCIe", "a800 80gb pcie|a800", 80, 108, gib(79.15), 1935e9, tera(19.5), tera(156), tera(312), tera(312),
     kNone},
    {"A800 80GB SXM", "a800 sxm4 80gb", 80, 108, gib(79.33), 2039e9, tera(19.5), tera(156), tera(312), tera(312), kNone,
     200e9},
    {"A10", "a10", 86, 72, gib(22.06), 600e9, tera(31.2), tera(62.5), tera(125), tera(125), kNone},
    {"A30", "a30", 80, 56, gib(23.53), 933e9, tera(10.3), tera(82), tera(165), tera(165), kNone},
    {"A40", "a40", 86, 84, gib(44.42), 696e9, tera(37.4), tera(74.8), tera(149.7), tera(149.7), kNone},
    {"RTX 3090", "3090", 86, 82, gib(23.56), 936e9, tera(35.6), tera(35.6), tera(71), tera(71), kNone},
    {"RTX A4500", "a4500", 86, 56, gib(19.59), 640e9, tera(23.7), tera(47.3), tera(94.6), tera(94.6), kNone},
    {"RTX A5000", "a5000", 86, 64, gib(23.55), 768e9, tera(27.8), tera(55.6), tera(111.1), tera(111.1), kNone},
    {"RTX A6000", "a6000", 86, 84, gib(47.40), 768e9, tera(38.7), tera(77.4), tera(154.8), tera(154.8), kNone},
    {"L4", "l4", 89, 58, gib(22.03), 300e9, tera(30.3), tera(60), tera(121), tera(121), tera(242.5)},
    {"L40", "l40", 89, 142, gib(44.39), 864e9, tera(90.5), tera(90.5), tera(181.05), tera(181.05), tera(362)},
    {"L40S", "l40s", 89, 142, gib(44.39), 864e9, tera(91.6), tera(183), tera(362), tera(362), tera(733)},
    {"RTX 6000 Ada", "6000 ada generation|6000 ada", 89, 142, gib(47.38), 960e9, tera(91.1), tera(182.1), tera(364.2),
     tera(364.2), tera(728.5)},
    {"RTX 4080", "4080", 89, 76, gib(15.57), 716.8e9, tera(48.7), tera(48.7), tera(97.5), tera(97.5), tera(194.9)},
    {"RTX 4090", "4090", 89, 128, gib(23.52), 1008e9, tera(82.6), tera(82.6), tera(165.2), tera(165.2), tera(330.3)},
    {"H100 PCIe", "h100 pcie", 90, 114, gib(79.18), 2000e9, tera(51), tera(378), tera(756), tera(756), tera(1513)},
    {"H100 SXM", "h100 80gb hbm3|h100 sxm5|h100", 90, 132, gib(79.18), 3350e9, tera(67), tera(494.7), tera(989.4),
     tera(989.4), tera(1978.9), 450e9},
    {"H100 NVL", "h100 nvl", 90, 132, gib(93.10), 3900e9, tera(60), tera(417.5), tera(835.5), tera(835.5),
     tera(1670.5)},
    {"H20", "h20", 90, 78, gib(95.00), 4000e9, tera(44), tera(74), tera(148), tera(148), tera(296), 450e9},
    {"H200 SXM", "h200|h200 sxm5", 90, 132, gib(139.80), 4800e9, tera(67), tera(494.7), tera(989.4), tera(989.4),
     tera(1978.9), 450e9},
    {"H200 NVL", "h200 nvl", 90, 132, gib(139.80), 4800e9, tera(60), tera(417.5), tera(835.5), tera(835.5),
     tera(1670.5)},
    {"GH200 96GB", "gh200 480gb|gh200 120gb|gh200", 90, 132, gib(94.50), 4000e9, tera(67), tera(494.7), tera(989.4),
     tera(989.4), tera(1978.9), 450e9},
    {"RTX 5090", "5090", 120, 170, gib(31.36), 1792e9, tera(104.8), tera(104.8), tera(209.5), tera(209.5), tera(419)},
    {"RTX PRO 6000", "pro 6000 blackwell workstation edition|pro 6000 blackwell server edition|pro 6000", 120, 188,
     gib(94.97), 1792e9, tera(126), tera(251.9), tera(503.8), tera(503.8), tera(1007.6)},
    {"B200", "b200", 100, 148, gib(178.35), 7700e9, tera(75), tera(1100), tera(2250), tera(2250), tera(4500), 900e9},
};

// Lower case, single spaces, without words that do not identify the GPU.
std::string normalised(std::string_view name) {
  constexpr std::array<std::string_view, 7> kIdle = {"nvidia", "tesla", "geforce", "quadro", "gpu", "rtx", "gtx"};
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

// The gigabytes of a word such as "80gb"; 0 for other words.
std::int64_t gigabytes(std::string_view word) {
  constexpr std::size_t kMostDigits = 4;
  if (!word.ends_with("gb")) return 0;
  word.remove_suffix(2);
  return word.size() <= kMostDigits && is_digits(word) ? std::stoll(std::string(word)) : 0;
}

// Whether a card of this size may report this memory: the driver keeps some of it, and some sizes count in powers of
// two.
bool agrees(std::int64_t gigabytes, std::int64_t memory_bytes) {
  constexpr double kDifference = 0.08;
  const double stated = static_cast<double>(gigabytes) * 1e9;
  return std::abs(static_cast<double>(memory_bytes) - stated) <= kDifference * stated;
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

CardDescription describe_card(const Datasheet& sheet) {
  return {.name = std::string(sheet.card),
          .compute_capability = sheet.compute_capability,
          .multiprocessors = sheet.multiprocessors,
          .memory_bytes = sheet.memory_bytes};
}

const Datasheet* find_datasheet(std::string_view name) {
  const std::string wanted = normalised(name);
  for (const Datasheet& sheet : kSheets) {
    if (normalised(sheet.card) == wanted || lists(sheet.aliases, wanted)) return &sheet;
  }
  // The name followed by the memory: "h100-80gb".
  const std::size_t last = wanted.rfind(' ');
  const std::int64_t size = last == std::string::npos ? 0 : gigabytes(std::string_view(wanted).substr(last + 1));
  if (size == 0) return nullptr;
  const Datasheet* sheet = find_datasheet(wanted.substr(0, last));
  return sheet != nullptr && agrees(size, sheet->memory_bytes) ? sheet : nullptr;
}

double host_link_bytes_per_second(const Datasheet& sheet) {
  constexpr double kPcie4 = 32e9, kPcie5 = 64e9;
  constexpr int kHopper = 90;
  return sheet.compute_capability >= kHopper ? kPcie5 : kPcie4;
}

std::optional<double> datasheet_flops_per_second(const Datasheet& sheet, std::string_view dtype) {
  if (dtype == "fp32") return sheet.fp32;
  if (dtype == "tf32") return sheet.tf32;
  if (dtype == "bf16") return sheet.bf16;
  if (dtype == "fp16") return sheet.fp16;
  if (dtype == "fp8") return sheet.fp8;
  return std::nullopt;
}

DatasheetRates datasheet_rates(std::string_view name, std::string_view dtype) {
  const Datasheet* sheet = find_datasheet(name);
  if (sheet == nullptr) sheet = find_datasheet("H100 SXM");
  return {sheet->card, datasheet_flops_per_second(*sheet, dtype).value_or(*sheet->fp32), sheet->bytes_per_second};
}

}  // namespace ridgepoint
