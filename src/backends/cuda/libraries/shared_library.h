// Libraries of the CUDA toolkit and driver, loaded at first use, so that the program runs on machines without them.
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint::cuda {

// The major version of the libraries that are opened: that of this build's toolkit, since its kernels fit no other.
// In a build without one, that of the newest NVRTC found here.
int toolkit_major();
// "cublasLt" -> "libcublasLt.so.13".
std::string toolkit_library(std::string_view name);

// Searches where the loader searches (LD_LIBRARY_PATH, the system's folders), then $CUDA_HOME, $CUDA_PATH,
// /usr/local/cuda, /usr/local/cuda-13, /usr/local/cuda-12 and /opt/cuda. A file in LD_LIBRARY_PATH that
// cannot be loaded ends the search. A library is never closed.
class SharedLibrary {
 public:
  // `file` is the loader's name: "libcuda.so.1".
  explicit SharedLibrary(std::string_view file);

  bool is_open() const { return handle_ != nullptr; }
  // The loader's error message if it is not open.
  const std::string& reason() const { return reason_; }
  // Null if the library has no such symbol.
  void* find(const char* symbol) const;
  // Sets `function` to the library's `symbol`. Throws Error (unsupported) with `advice` at its end if there is none.
  template <typename Function>
  void load(Function& function, const char* symbol, std::string_view advice = "") const {
    function = reinterpret_cast<Function>(find(symbol));
    if (function == nullptr) refuse(symbol, advice);
  }

 private:
  [[noreturn]] void refuse(const char* symbol, std::string_view advice) const;

  std::string file_;
  void* handle_ = nullptr;
  std::string reason_;
};

}  // namespace ridgepoint::cuda
