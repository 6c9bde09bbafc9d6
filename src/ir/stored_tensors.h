// The named tensors that the inputs of a graph store, and how they are converted. An input stores one tensor of its own
// name and type, unless a pass stored a weight in another type, or laid several weights side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/packed/packed_matrix.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {

// Converts a tensor to the type in which it is stored: as convert() does, but fp32 to bf16 with ties away from zero,
// and to low_half (core/types/halves.h).
void convert_to_stored(const HostTensor& tensor, HostTensor& result);
// The fp32 numbers with these halves: as many of each, in bytes.
void join_halves(std::span<const std::byte> rounded, std::span<const std::byte> low, std::span<std::byte> numbers);

// The attribute of a state that holds a low copy of a parameter: the name of the parameter.
inline constexpr std::string_view kCopyOf = "copy_of";
// The attribute of a state that holds the low halves of a parameter that is stored in bf16 (core/types/halves.h): the
// name of the parameter.
inline constexpr std::string_view kLowHalfOf = "low_half_of";
// The attribute of a state that holds the scale of a parameter that is stored as codes of e4m3, fp8: the name of the
// parameter. Weights side by side have one scale.
inline constexpr std::string_view kScaleOf = "scale_of";
// The attribute of a parameter that is stored in a low type: the dtype of the tensors that are written to it.
inline constexpr std::string_view kDeclaredDType = "declared_dtype";

// The attributes of a state that holds a part of the elements of a parameter, which it divides evenly: the name of the
// parameter, and the number of the part from 0.
inline constexpr std::string_view kPartOf = "part_of";
inline constexpr std::string_view kPart = "part";

// The attribute of a parameter or state that is stored in one dimension, with zeros behind its elements, or of which a
// rank stores only the part kPart of them, or that is packed: the sizes of the whole.
inline constexpr std::string_view kDeclaredShape = "declared_shape";
// Whether a rank stores a part of the input only.
bool is_divided(const Node& input);

// The attribute of a parameter without a gradient, where it is true.
inline constexpr std::string_view kFrozen = "frozen";
// The attribute of a parameter without weight decay, where it is true.
inline constexpr std::string_view kNoDecay = "no_decay";

// The attribute of an input that lies in the memory of the host, where it is true.
inline constexpr std::string_view kOnHost = "on_host";
// The attribute of such an input that lies in a file instead, where it is true.
inline constexpr std::string_view kOnDisk = "on_disk";

// The attributes of an integer input that chooses rows of a table by way of other ops: the number of rows, and the
// index that chooses none.
inline constexpr std::string_view kIndexedRows = "indexed_rows";
inline constexpr std::string_view kIgnoredIndex = "ignored_index";

// The attributes of an input that holds several weights: their names, separated by commas, and the rows of each.
inline constexpr std::string_view kParts = "parts";
inline constexpr std::string_view kRows = "rows";

// A tensor in the storage of an input. Its type is the one in the model; it is stored in the dtype of the input. Of a
// divided input, a rank stores those elements that lie in its part. A packed tensor lies in the bytes of an input of
// dtype packed, or is an input of codes and their scale.
struct StoredTensor {
  std::string name;
  TensorType type;
  std::int64_t first_element = 0;  // its place in the storage
  std::optional<PackedMatrix> packed = std::nullopt;
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
