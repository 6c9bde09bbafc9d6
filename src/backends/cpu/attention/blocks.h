// Code that attention's forward and backward share: the problem, its blocks, and conversion between the elements of
// tensors and the operands of products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/tile/functions/functions.h"
#include "core/rounding.h"
#include "ridgepoint/core/dtype.h"
#include "runtime/device/device.h"

namespace ridgepoint::cpu {

// Matrix products of attention's blocks, each on one thread: in fp32 by oneDNN's SGEMM; in bf16 with fp32 sums by its
// matmul primitives if the processor has them, made once for each shape.

// c = a b, or c += a b if `adds`: a [rows, inner], b [inner, columns], each stored in this order or transposed; c is
// fp32. A stride is the number of elements between two stored rows.
struct BlockProduct {
  bool a_transposed = false;
  bool b_transposed = false;
  bool adds = false;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  bool operator==(const BlockProduct&) const = default;
};

class BlockProducts {
 public:
  virtual ~BlockProducts() = default;
  // The dtype of a and b: fp32 or bf16.
  virtual DType operand_dtype() const = 0;
  // The scratch memory of each worker, aligned to kScratchAlignment.
  virtual std::size_t scratch_bytes() const = 0;
  // `product` is one that make_block_products() got. No two threads use the same `worker` at one time.
  virtual void multiply(const BlockProduct& product, int worker, void* scratch, const void* a, const void* b,
                        float* c) = 0;
};

inline constexpr std::size_t kScratchAlignment = 64;

// For operands of `dtype`; products take fp32 if this processor does not multiply the dtype.
std::unique_ptr<BlockProducts> make_block_products(DType dtype, std::span<const BlockProduct> products, int workers);

// A block of scores takes 128 KiB; two of them and the operands' blocks fit in a core's level-2 cache.
inline constexpr std::int64_t kQueries = 128;
inline constexpr std::int64_t kKeys = 256;

struct TiledProblem {
  DType dtype = DType::fp32;
  std::int64_t batch = 1;  // matrices of queries
  std::int64_t group = 1;  // of which this many in a row read one matrix of keys
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
  float scale = 1;
  bool causal = false;
  std::int64_t window = 0;  // 0: none
  float soft_cap = 0;       // 0: none

  std::int64_t query_blocks() const { return (queries + kQueries - 1) / kQueries; }
  std::int64_t key_blocks() const { return (keys + kKeys - 1) / kKeys; }
  std::int64_t rows(std::int64_t query) const { return std::min(kQueries, queries - query); }
  // The number of keys that at least one query of the block at `query` attends to.
  std::int64_t visible_keys(std::int64_t query) const { return causal ? std::min(keys, query + rows(query)) : keys; }
  // The first of the keys from `key` on that the block of queries attends to, rounded down to whole cache lines.
  std::int64_t first_column(std::int64_t query, std::int64_t key) const {
    constexpr std::int64_t kFloatsOfLine = 16;
    return window == 0 ? 0 : std::max<std::int64_t>(0, query - window + 1 - key) / kFloatsOfLine * kFloatsOfLine;
  }
  // How many keys of the block at `key` it attends to, from first_column() on.
  std::int64_t columns(std::int64_t query, std::int64_t key) const {
    return std::min(kKeys, visible_keys(query) - key) - first_column(query, key);
  }
  // The first block of keys that a query of the block at `query` attends to.
  std::int64_t first_key(std::int64_t query) const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, query - window + 1) / kKeys * kKeys;
  }
  // The first block of queries that attends to `key`.
  std::int64_t first_query(std::int64_t key) const { return causal ? key / kQueries * kQueries : 0; }
  // The first query that attends to no key of the block at `key` nor to later ones.
  std::int64_t end_query(std::int64_t key) const {
    return window == 0 ? queries : std::min(queries, key + kKeys - 1 + window);
  }
};

// `q` is the index of the operand q in the node.
TiledProblem read_tiled_problem(const KernelSpec& spec, std::size_t q);

// The products products_of(query, key) of pairs of blocks, in every shape that occurs: of the blocks of keys that a
// block of queries attends to, only the first and the last can be incomplete.
template <typename ProductsOf>
std::unique_ptr<BlockProducts> make_block_products(const TiledProblem& problem, int workers,
                                                   const ProductsOf& products_of) {
  std::vector<BlockProduct> all;
  for (std::int64_t query = 0; query < problem.queries; query += kQueries) {
    const std::int64_t first = problem.first_key(query);
    const std::int64_t last = (problem.visible_keys(query) - 1) / kKeys * kKeys;
    for (const std::int64_t key : {first, std::min(first + kKeys, last), last}) {
      for (const BlockProduct& product : products_of(query, key)) {
        if (std::ranges::find(all, product) == all.end()) all.push_back(product);
      }
    }
  }
  return make_block_products(problem.dtype, all, workers);
}

// Converts elements of a tensor: to operands of products (in place, or widened to fp32), and from fp32 results to the
// tensor's dtype. `first` and `count` are in elements.
class BlockElements {
 public:
  BlockElements(DType dtype, DType operand_dtype);
  // Whether operands are converted to fp32.
  bool widens() const { return dtype_ != operand_dtype_; }
  // Whether results are summed in the output tensor itself.
  bool in_place() const { return dtype_ == DType::fp32; }

  const void* operand(const void* tensor, std::int64_t first, std::int64_t count, float* widened) const;
  const float* fp32(const void* tensor, std::int64_t first, std::int64_t count, float* widened) const;
  // Elements that operand() returned, with 0 in place of NaN: the same address if no element is NaN, otherwise a copy
  // in `buffer`.
  const void* without_nan(const void* elements, std::int64_t count, std::vector<std::byte>& buffer) const;
  // The fp32 memory in which to sum the elements from `first` on: in the tensor itself, or `buffer`.
  float* sums(void* tensor, std::int64_t first, float* buffer) const;
  void store(const float* sums, void* tensor, std::int64_t first, std::int64_t count) const;

 private:
  void* at(const void* tensor, std::int64_t first) const;

  DType dtype_;
  DType operand_dtype_;
  tile::Function load_;
  tile::Function store_;
};

// Assigns offsets in a worker's workspace, each aligned for any type.
class Scratch {
 public:
  template <typename T = float>
  std::size_t take(std::int64_t count) {
    const std::size_t offset = bytes_;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    bytes_ += round_up(bytes, kScratchAlignment);
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace ridgepoint::cpu
