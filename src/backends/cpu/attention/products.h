// Matrix products of attention's blocks, each on one thread: in fp32 by oneDNN's SGEMM; in bf16 with fp32 sums by its
// matmul primitives if the processor has them, made once for each shape.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ridgepoint/dtype.h"

namespace ridgepoint::cpu {

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

}  // namespace ridgepoint::cpu
