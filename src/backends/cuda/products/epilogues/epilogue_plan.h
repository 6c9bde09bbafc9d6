// The plan of a product with an epilogue: how one kernel computes both. It needs no GPU. The kernel is one of
// low_matmul.cuh with another epilogue of its tiles; a second kernel may follow it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/tensor_map.h"
#include "backends/cuda/products/epilogues/pattern.h"
#include "backends/cuda/products/low_matmul/parameters.h"
#include "ops/layout.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// How blocks divide the product: a tile, and the tiles of a cluster.
struct EpilogueTiling {
  int rows = 0;
  int columns = 0;  // of b
  int cluster_rows = 1;
  int cluster_columns = 1;
  int beside_kib = 0;  // of shared memory, for what runs beside the product
  bool operator==(const EpilogueTiling&) const = default;

  int cluster_blocks() const { return cluster_rows * cluster_columns; }
  std::string to_text() const;  // 128x128_2x1, or 128x128_2x1_32k
};

// A launch of one kernel, without addresses.
struct EpilogueLaunch {
  // A field of the parameters that is an address, or the tensor map of an address.
  struct Field {
    enum class Of : std::uint8_t { inputs, results, workspace, block_flags };
    std::size_t place = 0;  // of the field in the parameters, in bytes
    Of of = Of::inputs;
    std::size_t index = 0;          // of the operand or result
    std::int64_t offset_bytes = 0;  // from where that begins
    std::optional<TensorMapShape> map;
    bool in_vectors = false;  // whether the kernel accesses what lies there in vectors of 16 bytes
  };
  // The parameters as the kernel has them.
  struct Parameters {
    alignas(alignof(TensorMap)) std::array<std::byte, 2048> bytes{};

    Parameters() = default;
    template <class Struct>
    explicit Parameters(const Struct& of) {
      static_assert(sizeof(Struct) <= sizeof(bytes) && std::is_trivially_copyable_v<Struct>);
      std::memcpy(bytes.data(), &of, sizeof of);
    }
  };

  std::string image;     // the .cu file, as in kernel_images.h
  std::string function;  // the name of the first launch is the kernel's
  LaunchShape shape;
  bool is_cooperative = false;
  Parameters parameters;
  std::vector<Field> fields;
};

// The address of a field in a launch; `block_flags` is that of the flags.
const void* address_of(const EpilogueLaunch::Field& field, const LaunchArguments& arguments, const void* block_flags);
// Whether all that the kernel reads or writes in vectors or through maps lies at multiples of 16 bytes.
bool are_aligned(const EpilogueLaunch& launch, const LaunchArguments& arguments);

// A product with its epilogue, and layouts.
class EpiloguePlan {
 public:
  virtual ~EpiloguePlan() = default;
  virtual std::vector<EpilogueTiling> candidates() const = 0;
  virtual std::vector<EpilogueLaunch> launches(const EpilogueTiling& tiling, int multiprocessors) const = 0;
  // All on which a choice depends, except the GPU and versions of others: it begins with the epilogue's name and
  // version.
  virtual std::string key() const = 0;
  // The most that a candidate needs.
  virtual std::size_t workspace_bytes() const { return 0; }
  // Whether two steps are a candidate too. They write the product, which takes memory where nothing else reads it.
  virtual bool may_take_two_steps() const { return true; }
};

// Elements between the lines of a matrix whose dimension `inner` is contiguous; 0 where it does not lie so, or where
// its lines do not begin at multiples of 16 bytes.
std::int64_t line_of(const TensorLayout& layout, std::size_t inner);

// Lines of `elements` contiguous elements, `line` apart, as the copy engine sees them: boxes of so many of them, in
// lines of shared memory that are as wide as the swizzle.
TensorMapShape lines_map(DType dtype, std::int64_t elements, std::int64_t lines, std::int64_t line, int box_lines);
// The results of a product, in panels as a tile of so many columns has them.
TensorMapShape panels_map(DType dtype, std::int64_t columns, std::int64_t rows, std::int64_t row, int columns_of_tile);

// The operands of a product as the copy engine reads them: a [m,k] by rows, and b [k,n] by columns or, of gradients, by
// rows.
struct ProductOperands {
  // The largest m, n and k of a product: the copy engine's indices have 32 bits.
  static constexpr std::int64_t kLargestSize = std::int64_t{1} << 30;

  MatrixProduct product;
  bool has_rows_of_b = false;
  std::int64_t a_row = 0, b_line = 0;  // elements between rows of a, and between lines of b

  // nullopt if they lie otherwise, do not begin at multiples of 16 bytes, or are too large.
  static std::optional<ProductOperands> of(const MatrixProduct& product, bool has_rows_of_b, const KernelSpec& spec);
  TensorMapShape a_map(const EpilogueTiling& tiling) const;
  // A tile has at least so many boxes of columns.
  TensorMapShape b_map(const EpilogueTiling& tiling, int least_boxes = 1) const;
};

// Whether rows of so many elements of 16 bits are whole vectors, of which there is one at least.
bool are_whole_vectors(std::initializer_list<std::int64_t> elements);

// The product [m,k] x [k,n] in tiles of `rows` x `columns` of the result.
struct EpilogueTiles {
  std::int64_t m = 0, n = 0, k = 0;
  int rows = 0, columns = 0;

  EpilogueTiles(const MatrixProduct& product, const EpilogueTiling& tiling)
      : m(product.m), n(product.n), k(product.k), rows(tiling.rows), columns(tiling.columns) {}
};
// The parameters without maps and addresses: clusters compute whole tiles.
LowMatmul divide_product(const EpilogueTiles& tiles, const EpilogueTiling& tiling, int multiprocessors);
// Of all clusters.
int blocks_of(const EpilogueTiles& tiles, const EpilogueTiling& tiling, int multiprocessors);
// The launch of the kernel of the product, without its parameters and fields.
EpilogueLaunch product_launch(std::string function, const char* image, int blocks, int shared_bytes);

}  // namespace ridgepoint::cuda
