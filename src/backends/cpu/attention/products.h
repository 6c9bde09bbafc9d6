// Products of the blocks that attention is cut into, each run by one thread: fp32 by oneDNN's SGEMM, bf16 with fp32
// sums by its matmul primitives where the processor has them, made once for each shape.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ridgepoint/dtype.h"

namespace ridgepoint::cpu {

// c = a b, or c += a b: a [rows, inner] and b [inner, columns] in memory as they are or transposed, c in fp32. Strides
// are elements between the rows of what lies in memory.
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
  // Of a and b: fp32 or bf16.
  virtual DType operand_dtype() const = 0;
  // What each worker lends multiply(), aligned to kScratchAlignment.
  virtual std::size_t scratch_bytes() const = 0;
  // `product` is one of those this was made for; `worker` is below the count of workers, and no other thread's.
  virtual void multiply(const BlockProduct& product, int worker, void* scratch, const void* a, const void* b,
                        float* c) = 0;
};

inline constexpr std::size_t kScratchAlignment = 64;

// For operands of `dtype`: of those that this processor does not multiply, products take fp32.
std::unique_ptr<BlockProducts> make_block_products(DType dtype, std::span<const BlockProduct> products, int workers);

}  // namespace ridgepoint::cpu
