#include "inspect/profile/filter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "core/types/enum_names.h"
#include "inspect/profile/views.h"

namespace ridgepoint {
namespace {

// Dots become slashes, because fnmatch() treats slashes as separators.
std::string as_path(std::string_view dotted) {
  std::string path(dotted);
  std::ranges::replace(path, '.', '/');
  return path;
}

// "phase forward, module layers.*.attn".
std::string describe(const KernelFilter& filter) {
  std::string text;
  if (!filter.phases.empty()) text = fmt::format("phase {}", fmt::join(names_of(filter.phases), " or "));
  if (filter.scopes.empty()) return text;
  return fmt::format("{}{}module {}", text, text.empty() ? "" : ", ", fmt::join(filter.scopes, " or "));
}

}  // namespace

bool matches_scope(std::string_view pattern, const std::string& scope) {
  return !scope.empty() && ::fnmatch(as_path(pattern).c_str(), as_path(scope).c_str(),
                                     FNM_PATHNAME | FNM_LEADING_DIR | FNM_NOESCAPE) == 0;
}

void select_kernels(Profile& profile, const KernelFilter& filter) {
  if (filter.is_empty() || !profile.has_kernels()) return;
  const KernelSum all = total(profile);
  profile.selection = {describe(filter), all.calls, all.time_ns};
  std::erase_if(profile.kernels, [&](const KernelRecord& kernel) {
    const bool has_phase =
        filter.phases.empty() || std::ranges::find(filter.phases, kernel.phase) != filter.phases.end();
    const bool has_scope = filter.scopes.empty() || std::ranges::any_of(filter.scopes, [&](const std::string& pattern) {
                             return matches_scope(pattern, kernel.scope);
                           });
    return !has_phase || !has_scope;
  });
}

}  // namespace ridgepoint
