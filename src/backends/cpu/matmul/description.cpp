#include "backends/cpu/matmul/description.h"

#include <string_view>

namespace ridgepoint::cpu {

#if DNNL_VERSION_MAJOR >= 3

namespace {

// Whether a matrix is a single row or column whose elements are not contiguous. `along` is the vector's axis, counted
// from the last.
bool is_strided_vector(const dnnl::memory::desc& matrix, std::size_t along) {
  const dnnl::memory::dims sizes = matrix.get_dims();
  const std::size_t across = 3 - along;
  return sizes[sizes.size() - across] == 1 && sizes[sizes.size() - along] > 1 &&
         matrix.get_strides()[sizes.size() - along] != 1;
}

}  // namespace

// oneDNN 3.7.2 (but not 2.6) has kernels named "brg" that read an a of one row and write a c of one column as if it
// were dense, whatever the strides. Such products use the next kernel.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
  dnnl::matmul::primitive_desc description(engine, a, b, c, attributes);
  if (!is_strided_vector(a, 1) && !is_strided_vector(c, 2)) return description;
  while (std::string_view(description.impl_info_str()).starts_with("brg")) {
    if (!description.next_impl()) throw dnnl::error(dnnl_unimplemented, "no kernel for a strided vector");
  }
  return description;
}

#else

dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
}

#endif

}  // namespace ridgepoint::cpu
