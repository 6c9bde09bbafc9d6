#include "inspect/trace/kernel_rules.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "core/files/file.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

struct BuiltInKernel {
  KernelClass kernel_class;
  std::string_view pattern;
};
struct BuiltInMark {
  ProfilePhase phase;
  std::string_view pattern;
};

#define MARK(phase, pattern)
#define KERNEL(kernel_class, pattern) BuiltInKernel{KernelClass::kernel_class, pattern},
constexpr std::array kKernels = {
#include "inspect/trace/kernel_rules.def"
};
#undef KERNEL
#undef MARK

#define KERNEL(kernel_class, pattern)
#define MARK(phase, pattern) BuiltInMark{ProfilePhase::phase, pattern},
constexpr std::array kMarks = {
#include "inspect/trace/kernel_rules.def"
};
#undef KERNEL
#undef MARK

std::vector<std::string> parts_of(std::string_view pattern) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream stream(lower(pattern));
  while (std::getline(stream, part, '*'))
    if (!part.empty()) parts.push_back(part);
  return parts;
}

bool has_parts(std::string_view text, const std::vector<std::string>& parts) {
  std::size_t at = 0;
  for (const std::string& part : parts) {
    at = text.find(part, at);
    if (at == std::string_view::npos) return false;
    at += part.size();
  }
  return true;
}

}  // namespace

std::optional<KernelClass> kernel_class_from_name(std::string_view text) {
  std::string wanted(text);
  std::ranges::replace(wanted, '_', ' ');
  for (const KernelClass known : kKernelClasses)
    if (name(known) == wanted) return known;
  return std::nullopt;
}

KernelRules::KernelRules(std::vector<KernelRule> first) : rules_(std::move(first)) {
  for (const BuiltInKernel& rule : kKernels) rules_.push_back({rule.kernel_class, parts_of(rule.pattern)});
}

KernelRules KernelRules::with_file(const std::filesystem::path& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20U;
  std::vector<KernelRule> rules;
  std::istringstream lines(read_file(path, kMostBytes));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.starts_with('#')) continue;
    const std::size_t blank = text.find_first_of(" \t");
    const auto kernel_class = kernel_class_from_name(text.substr(0, blank));
    const std::vector<std::string> parts =
        blank == std::string_view::npos ? std::vector<std::string>() : parts_of(trimmed(text.substr(blank)));
    if (!kernel_class || parts.empty())
      throw_error(
          "'{}', line {}: '{}' is no rule; one is a class (matmul, attention, softmax, norm, "
          "elementwise, loss, optimizer, memory_movement, communication) and a part of kernels' "
          "names: attention my_fused_*_fwd",
          path.string(), number, printable(text));
    rules.push_back({*kernel_class, parts});
  }
  return KernelRules(std::move(rules));
}

KernelClass KernelRules::class_of(std::string_view kernel) const {
  const std::string lowered = lower(kernel);
  for (const KernelRule& rule : rules_)
    if (has_parts(lowered, rule.parts)) return rule.kernel_class;
  return KernelClass::unknown;
}

std::optional<ProfilePhase> phase_of_mark(std::string_view mark) {
  const std::string lowered = lower(mark);
  for (const BuiltInMark& rule : kMarks)
    if (has_parts(lowered, parts_of(rule.pattern))) return rule.phase;
  return std::nullopt;
}

}  // namespace ridgepoint
