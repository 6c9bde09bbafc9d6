// oneDNN's matmul primitives. The interface that describes them differs between versions 2 and 3 of oneDNN.
#pragma once

#include <array>
#include <dnnl.hpp>

namespace ridgepoint::cpu {

// c = a b, with scratch memory from the caller. Throws dnnl::error if oneDNN has no such product, or only its reference
// kernel.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                             dnnl::primitive_attr attributes = {});

// The arguments of a primitive. They hold the addresses of a call, so no two threads may use them at one time.
class MatmulArguments {
 public:
  MatmulArguments(const dnnl::matmul::primitive_desc& description, const dnnl::engine& engine);

  // Uses the C interface, because the C++ one allocates a list of arguments at every call.
  dnnl_status_t execute(const dnnl::matmul& primitive, const dnnl::stream& stream, const void* a, const void* b,
                        void* c, void* scratch);

 private:
  std::array<dnnl::memory, 4> memory_;
  std::array<dnnl_exec_arg_t, 4> list_{};
};

}  // namespace ridgepoint::cpu
