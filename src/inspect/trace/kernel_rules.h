// The class of a kernel by its name, and the phase of events within a mark by the mark's name. Rules are data: the
// first match decides, and a user's rules come before the built-in rules (kernel_rules.def).
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/inspect/profile.h"

namespace ridgepoint {

inline constexpr std::array kKernelClasses = {
    KernelClass::matmul,        KernelClass::attention, KernelClass::softmax,   KernelClass::norm,
    KernelClass::elementwise,   KernelClass::loss,      KernelClass::optimizer, KernelClass::memory_movement,
    KernelClass::communication, KernelClass::unknown};

struct KernelRule {
  KernelClass kernel_class = KernelClass::unknown;
  // Parts that a name has in this order, in lower case.
  std::vector<std::string> parts;
};

class KernelRules {
 public:
  // The built-in rules, behind those of a file. A line of the file is a class and a pattern: `attention
  // my_fused_*_fwd`. Throws Error, with the line, for one that is not.
  KernelRules() : KernelRules(std::vector<KernelRule>()) {}
  static KernelRules with_file(const std::filesystem::path& path);

  KernelClass class_of(std::string_view kernel) const;

 private:
  explicit KernelRules(std::vector<KernelRule> first);
  std::vector<KernelRule> rules_;
};

// Empty where the name says nothing.
std::optional<ProfilePhase> phase_of_mark(std::string_view mark);

std::optional<KernelClass> kernel_class_from_name(std::string_view text);

}  // namespace ridgepoint
