// What attention's forward and backward share: the problem, its blocks, and how elements of q, k, v and what is made of
// them become operands of products and come back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/attention/products.h"
#include "backends/cpu/tile/functions/functions.h"
#include "runtime/device.h"

namespace ridgepoint::cpu {

// A block of scores takes 128 KiB, two of them fit into a core's second cache beside the operands' blocks.
inline constexpr std::int64_t kQueries = 128;
inline constexpr std::int64_t kKeys = 256;

struct TiledProblem {
  DType dtype = DType::fp32;
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
  float scale = 1;
  bool causal = false;

  std::int64_t query_blocks() const { return (queries + kQueries - 1) / kQueries; }
  std::int64_t key_blocks() const { return (keys + kKeys - 1) / kKeys; }
  std::int64_t rows(std::int64_t query) const { return std::min(kQueries, queries - query); }
  // Where the keys end that some query of the block from `query` sees.
  std::int64_t keys_seen(std::int64_t query) const { return causal ? std::min(keys, query + rows(query)) : keys; }
  // Of the block of keys from `key`, how many those are.
  std::int64_t columns(std::int64_t query, std::int64_t key) const { return std::min(kKeys, keys_seen(query) - key); }
  // The first block of queries of which one sees `key`.
  std::int64_t first_query(std::int64_t key) const { return causal ? key / kQueries * kQueries : 0; }
};

// `q` is the operand's index in the node.
TiledProblem read_tiled_problem(const KernelSpec& spec, std::size_t q);

// Calls body(query, key) for pairs of blocks among which is every shape of those that are multiplied: of the keys that
// a block of queries sees, all blocks but the last are whole.
template <typename Body>
void for_each_block_shape(const TiledProblem& problem, const Body& body) {
  for (std::int64_t query = 0; query < problem.queries; query += kQueries) {
    body(query, 0);
    body(query, (problem.keys_seen(query) - 1) / kKeys * kKeys);
  }
}

// Adds those of `products` that are not in `all`.
void add_missing(std::vector<BlockProduct>& all, std::span<const BlockProduct> products);

// Elements of a tensor of one dtype as products take them (as they lie, or widened to fp32), and fp32 results rounded
// to it. `first` and `count` are elements.
class BlockElements {
 public:
  BlockElements(DType dtype, DType operand_dtype);
  // Whether operands are copied.
  bool widens() const { return dtype_ != operand_dtype_; }
  // Whether results are summed where they belong.
  bool in_place() const { return dtype_ == DType::fp32; }

  const void* operand(const void* tensor, std::int64_t first, std::int64_t count, float* widened) const;
  const float* fp32(const void* tensor, std::int64_t first, std::int64_t count, float* widened) const;
  // Elements that operand() gave, with zeros for those that are NaN: themselves where none is, else written to `apart`.
  const void* without_nan(const void* elements, std::int64_t count, std::vector<std::byte>& apart) const;
  // Where to sum results up that end in elements from `first` of the tensor.
  float* sums(void* tensor, std::int64_t first, float* apart) const;
  void store(const float* sums, void* tensor, std::int64_t first, std::int64_t count) const;

 private:
  void* at(const void* tensor, std::int64_t first) const;

  DType dtype_;
  DType operand_dtype_;
  tile::Function load_;
  tile::Function store_;
};

// Hands out parts of a worker's workspace, each aligned for any use.
class Scratch {
 public:
  template <typename T = float>
  std::size_t take(std::int64_t count) {
    const std::size_t offset = bytes_;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    bytes_ += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace ridgepoint::cpu
