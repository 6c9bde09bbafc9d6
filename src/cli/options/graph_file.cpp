#include "cli/options/graph_file.h"

#include <cstdint>

#include "core/files/file.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cli {

Graph read_graph_file(const std::string& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
  const std::string text = read_file(path, kMostBytes);
  try {
    return parse_graph(text);
  } catch (const Error& error) {
    throw_error("'{}': {}", path, error.what());
  }
}

}  // namespace ridgepoint::cli
