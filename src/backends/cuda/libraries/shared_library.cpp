#include "backends/cuda/libraries/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

#include "backends/cuda/libraries/kernel_images.h"
#include "core/first_call_clock.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kMajors[] = {13, 12};  // of the toolkits that driver_api.h and the other interfaces fit

std::string library_of(int major, std::string_view name) { return fmt::format("lib{}.so.{}", name, major); }

std::vector<std::string> folders() {
  std::vector<std::string> list = {""};  // the loader's own search
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable); root != nullptr && *root == '/')
      list.push_back(std::string(root) + "/lib64/");
  }
  list.insert(list.end(), {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"});
  for (const int major : kMajors) list.push_back(fmt::format("/usr/local/cuda-{}/lib64/", major));
  list.push_back("/opt/cuda/lib64/");
  return list;
}

// Whether the user has put such a file before the others; if it cannot be loaded, another one is not what they asked
// for.
bool is_in_library_path(const std::string& file) {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  if (path == nullptr) return false;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    std::error_code error;
    if (!folder.empty() && std::filesystem::exists(std::filesystem::path(folder) / file, error)) return true;
  }
  return false;
}

}  // namespace

int toolkit_major() {
  static const int major = [] {
    if (toolkit_version() > 0) return toolkit_version() / 1000;
    const auto* found = std::ranges::find_if(
        kMajors, [](int candidate) { return SharedLibrary(library_of(candidate, "nvrtc")).is_open(); });
    return found == std::end(kMajors) ? kMajors[0] : *found;
  }();
  return major;
}

std::string toolkit_library(std::string_view name) { return library_of(toolkit_major(), name); }

SharedLibrary::SharedLibrary(std::string_view file) : file_(file) {
  const InStage in_stage(FirstCallStage::libraries);
  for (const std::string& folder : folders()) {
    const std::string path = folder + file_;
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    const char* words = dlerror();
    if (reason_.empty() && words != nullptr) reason_ = words;  // the first reason; later ones only say "no such file"
    if (is_in_library_path(file_)) return;
  }
}

void* SharedLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

void SharedLibrary::refuse(const char* symbol, std::string_view advice) const {
  throw_error(ErrorKind::unsupported, "{} has no function {}{}", file_, symbol, advice);
}

}  // namespace ridgepoint::cuda
