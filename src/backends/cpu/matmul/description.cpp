#include "backends/cpu/matmul/description.h"

#include <string_view>

namespace ridgepoint::cpu {

#if DNNL_VERSION_MAJOR >= 3

namespace {

// Whether a matrix is one vector whose elements do not lie next to each other: `along` is its long axis, counted from
// the last.
bool is_strided_vector(const dnnl::memory::desc& matrix, std::size_t along) {
  const dnnl::memory::dims sizes = matrix.get_dims();
  const std::size_t across = 3 - along;
  return sizes[sizes.size() - across] == 1 && sizes[sizes.size() - along] > 1 &&
         matrix.get_strides()[sizes.size() - along] != 1;
}

}  // namespace

// The kernels called "brg" take an a of one row and a c of one column for dense, whatever their strides say (3.7.2; 2.6
// does not): the next kernel that oneDNN has computes those.
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
