// Libraries of the CUDA toolkit and driver, opened when first needed: the program starts on machines without them.
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint::cuda {

// The toolkit this was built with: only libraries of its major version have the interface that its headers describe.
int toolkit_major();
// "libcublasLt.so.13", for "cublasLt".
std::string toolkit_library(std::string_view name);

// Looks where the loader looks (LD_LIBRARY_PATH, the system's folders), then in $CUDA_HOME, $CUDA_PATH,
// /usr/local/cuda, /usr/local/cuda-13 (the toolkit's major version) and /opt/cuda. Once open a library stays open.
class SharedLibrary {
 public:
  // `file` as the loader knows it: "libcuda.so.1".
  explicit SharedLibrary(std::string_view file);

  bool is_open() const { return handle_ != nullptr; }
  // The loader's own words when it is not.
  const std::string& reason() const { return reason_; }
  // Null when the library has no such symbol.
  void* find(const char* symbol) const;

 private:
  void* handle_ = nullptr;
  std::string reason_;
};

}  // namespace ridgepoint::cuda
