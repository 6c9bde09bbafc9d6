#include "backends/cpu/attention/blocks.h"

#include <dnnl.hpp>

#include "backends/cpu/matmul/matmul.h"
#include "backends/cpu/matmul/onednn.h"
#include "core/text/throw_error.h"
#include "ops/attention_form.h"

namespace ridgepoint::cpu {
namespace {

void require_success(dnnl_status_t status, const BlockProduct& product) {
  if (status == dnnl_success) return;
  throw_error("oneDNN failed at a {} x {} x {} matrix product of attention (status {})", product.rows, product.columns,
              product.inner, static_cast<int>(status));
}

class SgemmProducts : public BlockProducts {
 public:
  DType operand_dtype() const override { return DType::fp32; }
  std::size_t scratch_bytes() const override { return 0; }
  void multiply(const BlockProduct& product, int, void*, const void* a, const void* b, float* c) override {
    const OneThread one_thread;
    require_success(
        dnnl_sgemm(product.a_transposed ? 'T' : 'N', product.b_transposed ? 'T' : 'N', product.rows, product.columns,
                   product.inner, 1.0F, static_cast<const float*>(a), product.a_stride, static_cast<const float*>(b),
                   product.b_stride, product.adds ? 1.0F : 0.0F, c, product.c_stride),
        product);
  }
};

dnnl::memory::desc descriptor(std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transposed,
                              dnnl::memory::data_type dtype) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, dtype, strides};
}

dnnl::matmul::primitive_desc describe(const BlockProduct& product, const dnnl::engine& engine) {
  using Type = dnnl::memory::data_type;
  dnnl::primitive_attr attributes;
  if (product.adds) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return describe_matmul(engine,
                         descriptor(product.rows, product.inner, product.a_stride, product.a_transposed, Type::bf16),
                         descriptor(product.inner, product.columns, product.b_stride, product.b_transposed, Type::bf16),
                         descriptor(product.rows, product.columns, product.c_stride, false, Type::f32), attributes);
}

class PrimitiveProducts : public BlockProducts {
 public:
  // Throws dnnl::error if oneDNN has only its reference kernel.
  PrimitiveProducts(std::span<const BlockProduct> products, int workers)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const OneThread one_thread;
    for (const BlockProduct& product : products) {
      const dnnl::matmul::primitive_desc description = describe(product, engine_);
      scratch_bytes_ = std::max(scratch_bytes_, description.scratchpad_desc().get_size());
      Entry entry{product, dnnl::matmul(description), {}};
      for (int worker = 0; worker < workers; ++worker) entry.arguments.emplace_back(description, engine_);
      entries_.push_back(std::move(entry));
    }
  }

  DType operand_dtype() const override { return DType::bf16; }
  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void multiply(const BlockProduct& product, int worker, void* scratch, const void* a, const void* b,
                float* c) override {
    for (Entry& entry : entries_) {
      if (!(entry.product == product)) continue;
      MatmulArguments& arguments = entry.arguments[static_cast<std::size_t>(worker)];
      const OneThread one_thread;
      return require_success(arguments.execute(entry.primitive, stream_, a, b, c, scratch), product);
    }
    require_success(dnnl_invalid_arguments, product);
  }

 private:
  struct Entry {
    BlockProduct product;
    dnnl::matmul primitive;
    std::vector<MatmulArguments> arguments;  // by worker
  };

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<Entry> entries_;
  std::size_t scratch_bytes_ = 0;
};

// A NaN has a magnitude above infinity's bits. The loop has no early exit, so that the compiler vectorises it.
template <typename Bits>
bool any_above(const Bits* elements, std::int64_t count, Bits infinity) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  bool found = false;
  for (std::int64_t i = 0; i < count; ++i) found |= (elements[i] & kMagnitude) > infinity;
  return found;
}

template <typename Bits>
const void* cleared(const void* elements, std::int64_t count, Bits infinity, std::vector<std::byte>& buffer) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  const auto* from = static_cast<const Bits*>(elements);
  if (!any_above(from, count, infinity)) return elements;
  buffer.resize(static_cast<std::size_t>(count) * sizeof(Bits));
  auto* to = reinterpret_cast<Bits*>(buffer.data());
  for (std::int64_t i = 0; i < count; ++i) to[i] = (from[i] & kMagnitude) > infinity ? Bits{0} : from[i];
  return to;
}

}  // namespace

std::unique_ptr<BlockProducts> make_block_products(DType dtype, std::span<const BlockProduct> products, int workers) {
  if (dtype == DType::bf16 && has_bf16_products()) {
    try {
      return std::make_unique<PrimitiveProducts>(products, workers);
    } catch (const dnnl::error&) {  // oneDNN has no such kernel
    }
  }
  if (dtype != DType::fp32) warn_emulated(dtype);
  return std::make_unique<SgemmProducts>();
}

TiledProblem read_tiled_problem(const KernelSpec& spec, std::size_t q) {
  const Shape& queries = spec.inputs[q].shape;
  TiledProblem problem;
  problem.dtype = spec.inputs[q].dtype;
  for (int axis = 0; axis < queries.rank() - 2; ++axis) problem.batch *= queries[axis];
  problem.queries = queries[-2];
  problem.keys = spec.inputs[q + 1].shape[-2];
  problem.width = queries[-1];
  problem.group = heads_per_key_head(queries, spec.inputs[q + 1].shape);
  const AttentionForm form = attention_form(spec.node.attributes);
  problem.scale = static_cast<float>(form.scale);
  problem.causal = form.causal;
  problem.window = form.window < problem.keys ? form.window : 0;
  problem.soft_cap = static_cast<float>(form.soft_cap);
  return problem;
}

BlockElements::BlockElements(DType dtype, DType operand_dtype)
    : dtype_(dtype),
      operand_dtype_(operand_dtype),
      load_(tile::load_function(dtype, 1)),
      store_(tile::store_function(dtype, 1)) {}

void* BlockElements::at(const void* tensor, std::int64_t first) const {
  return const_cast<std::byte*>(static_cast<const std::byte*>(tensor) +
                                first * static_cast<std::int64_t>(size_bytes(dtype_)));
}

const void* BlockElements::operand(const void* tensor, std::int64_t first, std::int64_t count, float* widened) const {
  return widens() ? fp32(tensor, first, count, widened) : at(tensor, first);
}

const float* BlockElements::fp32(const void* tensor, std::int64_t first, std::int64_t count, float* widened) const {
  if (dtype_ == DType::fp32) return static_cast<const float*>(at(tensor, first));
  load_(widened, at(tensor, first), nullptr, nullptr, count, 1);
  return widened;
}

const void* BlockElements::without_nan(const void* elements, std::int64_t count, std::vector<std::byte>& buffer) const {
  if (operand_dtype_ == DType::fp32) return cleared<std::uint32_t>(elements, count, 0x7F80'0000, buffer);
  return cleared<std::uint16_t>(elements, count, 0x7F80, buffer);  // bf16
}

float* BlockElements::sums(void* tensor, std::int64_t first, float* buffer) const {
  return in_place() ? static_cast<float*>(at(tensor, first)) : buffer;
}

void BlockElements::store(const float* sums, void* tensor, std::int64_t first, std::int64_t count) const {
  if (!in_place()) store_(at(tensor, first), sums, nullptr, nullptr, count, 1);
}

}  // namespace ridgepoint::cpu
