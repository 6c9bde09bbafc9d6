// oneDNN's description of a matmul primitive; this interface differs between versions 2 and 3 of oneDNN.
#pragma once

#include <dnnl.hpp>

namespace ridgepoint::cpu {

// c = a b. Throws dnnl::error if oneDNN has no such product.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                             const dnnl::primitive_attr& attributes);

}  // namespace ridgepoint::cpu
