// Selects kernels of a profile by phase and module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "inspect/profile/profile.h"

namespace ridgepoint {

// An empty list selects all.
struct KernelFilter {
  std::vector<ProfilePhase> phases;
  // Patterns of module names: * matches any characters except a dot, ? one character. A pattern selects a module with
  // all modules inside it.
  std::vector<std::string> scopes;
  bool is_empty() const { return phases.empty() && scopes.empty(); }
};

bool matches_scope(std::string_view pattern, const std::string& scope);

// Removes the other kernels from the profile, and stores the totals over all kernels in `selection`.
void select_kernels(Profile& profile, const KernelFilter& filter);

}  // namespace ridgepoint
