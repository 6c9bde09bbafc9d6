// Some kernels of a profile: those of some phases, in some modules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/profile/profile.h"

namespace ridgepoint {

// An empty list stands for all.
struct KernelFilter {
  std::vector<ProfilePhase> phases;
  // Patterns of module names, in which * stands for any characters but a dot and ? for one: layers.*.attn. A module is
  // meant with all that it holds.
  std::vector<std::string> scopes;
  bool is_empty() const { return phases.empty() && scopes.empty(); }
};

bool matches_scope(std::string_view pattern, const std::string& scope);
// "phase forward, module layers.*.attn".
std::string to_string(const KernelFilter& filter);

// Leaves the profile's other kernels out and keeps in `selection` what all of them were.
void select_kernels(Profile& profile, const KernelFilter& filter);

}  // namespace ridgepoint
