// The graph text parser and the verifier. For any text, parse_graph throws Error or returns a graph whose own text
// reads back as the same graph.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "require.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ridgepoint::Graph graph;
  try {
    graph = ridgepoint::parse_graph(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const ridgepoint::Error&) {
    return 0;
  }
  const std::string text = ridgepoint::print_graph(graph);
  RIDGEPOINT_REQUIRE(ridgepoint::print_graph(ridgepoint::parse_graph(text)) == text);
  return 0;
}
