// The named tensors that the inputs of a graph store. An input stores one tensor of its own name and type, unless a
// pass stored a weight in another type, or laid several weights side by side.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// The attribute of a state that holds a low copy of a parameter: the name of the parameter.
inline constexpr std::string_view kCopyOf = "copy_of";
// The attribute of a parameter that is stored in a low type: the dtype of the tensors that are written to it.
inline constexpr std::string_view kDeclaredDType = "declared_dtype";

// A tensor in the storage of an input. Its type is the one in the model; it is stored in the dtype of the input.
struct StoredTensor {
  std::string name;
  TensorType type;
  std::int64_t first_element = 0;  // its place in the storage
};

// The tensors that an input stores, in the order in which they lie. Throws Error where the attributes that lay_parts()
// set do not describe the input.
std::vector<StoredTensor> stored_tensors(const Graph& graph, const Node& input);

// Makes an input store tensors of these names one after another along its first dimension; `rows` are their sizes
// along it. The names must not contain a comma.
void lay_parts(Node& input, std::span<const std::string> names, std::vector<std::int64_t> rows);
// The sizes along the first dimension that lay_parts() set; empty for another input.
std::vector<std::int64_t> part_rows(const Node& input);

}  // namespace ridgepoint
