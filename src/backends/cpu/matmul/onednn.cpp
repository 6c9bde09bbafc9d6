#include "backends/cpu/matmul/onednn.h"

#include <string_view>

namespace ridgepoint::cpu {
namespace {

#if DNNL_VERSION_MAJOR >= 3

// Whether a matrix is a single row or column whose elements are not contiguous. `along` is the vector's axis, counted
// from the last.
bool is_strided_vector(const dnnl::memory::desc& matrix, std::size_t along) {
  const dnnl::memory::dims sizes = matrix.get_dims();
  const std::size_t across = 3 - along;
  return sizes[sizes.size() - across] == 1 && sizes[sizes.size() - along] > 1 &&
         matrix.get_strides()[sizes.size() - along] != 1;
}

// Whether a matrix has more than two batch axes, and two of them that are not as far apart as one axis of both.
bool has_scattered_batch(const dnnl::memory::desc& matrix) {
  const dnnl::memory::dims sizes = matrix.get_dims();
  const dnnl::memory::dims strides = matrix.get_strides();
  const std::size_t axes = sizes.size() - 2;
  for (std::size_t i = 0; axes > 2 && i + 1 < axes; ++i) {
    if (strides[i] != strides[i + 1] * sizes[i + 1]) return true;
  }
  return false;
}

// oneDNN 3.7.2 (but not 2.6) has kernels named "brg" that read an a of one row and write a c of one column as if it
// were dense, whatever the strides, and that mistake the places of matrices where batch axes are scattered. Such
// products use the next kernel.
dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                      const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                      const dnnl::primitive_attr& attributes) {
  dnnl::matmul::primitive_desc description(engine, a, b, c, attributes);
  const bool is_scattered = has_scattered_batch(a) || has_scattered_batch(b) || has_scattered_batch(c);
  if (!is_scattered && !is_strided_vector(a, 1) && !is_strided_vector(c, 2)) return description;
  while (std::string_view(description.impl_info_str()).starts_with("brg")) {
    if (!description.next_impl()) throw dnnl::error(dnnl_unimplemented, "no kernel for these strides");
  }
  return description;
}

#else

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                      const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                      const dnnl::primitive_attr& attributes) {
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
}

#endif

}  // namespace

dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                             dnnl::primitive_attr attributes) {
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::matmul::primitive_desc description = describe(engine, a, b, c, attributes);
  if (std::string_view(description.impl_info_str()).starts_with("ref"))
    throw dnnl::error(dnnl_unimplemented, "reference kernel only");
  return description;
}

MatmulArguments::MatmulArguments(const dnnl::matmul::primitive_desc& description, const dnnl::engine& engine)
    : memory_{dnnl::memory(description.src_desc(), engine, DNNL_MEMORY_NONE),
              dnnl::memory(description.weights_desc(), engine, DNNL_MEMORY_NONE),
              dnnl::memory(description.dst_desc(), engine, DNNL_MEMORY_NONE),
              dnnl::memory(description.scratchpad_desc(), engine, DNNL_MEMORY_NONE)} {
  constexpr std::array kSlots = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
  for (std::size_t i = 0; i < kSlots.size(); ++i) list_[i] = {kSlots[i], memory_[i].get()};
}

dnnl_status_t MatmulArguments::execute(const dnnl::matmul& primitive, const dnnl::stream& stream, const void* a,
                                       const void* b, void* c, void* scratch) {
  const std::array<void*, 4> addresses = {const_cast<void*>(a), const_cast<void*>(b), c, scratch};
  for (std::size_t i = 0; i < addresses.size(); ++i) memory_[i].set_data_handle(addresses[i]);
  return dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(list_.size()), list_.data());
}

}  // namespace ridgepoint::cpu
