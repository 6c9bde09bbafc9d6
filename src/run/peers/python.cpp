#include "run/peers/python.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "core/processes/child_process.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr const char* kVariable = "RIDGEPOINT_PYTHON";

std::vector<std::string> candidates(const std::string& named) {
  if (!named.empty()) return {named};
  if (const char* path = std::getenv(kVariable); path != nullptr && *path != '\0') return {path};
  return {"python3", "/usr/bin/python3"};
}

// Throws Error with the reason, without the path.
std::string torch_version_of(const std::string& path, const StopPoint& stop_point) {
  ChildProcess process({path, "-c", "import torch; print(torch.__version__)"});
  const std::optional<std::string> version = process.read_line(stop_point);
  const int exit_code = process.wait();
  if (version && exit_code == 0) return *version;
  const std::string reason = process.last_error_line();
  throw Error(fmt::format("'{}': {}", path, reason.empty() ? fmt::format("exit code {}", exit_code) : reason));
}

}  // namespace

Python find_python(const std::string& named, const StopPoint& stop_point) {
  std::vector<std::string> reasons;
  for (const std::string& path : candidates(named)) {
    try {
      return {path, torch_version_of(path, stop_point)};
    } catch (const Error& error) {
      reasons.emplace_back(error.what());
    }
  }
  throw Error(
      fmt::format("no Python with PyTorch was found ({}); install PyTorch, or name a Python that has it: --python "
                  "FILE, or the environment variable {}",
                  fmt::join(reasons, "; "), kVariable));
}

}  // namespace ridgepoint
