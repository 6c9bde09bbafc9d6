#include "interchange/snapshot/reader/frame_rules.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace ridgepoint {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 5> kHiddenBegins = {"_start", "__libc_start_main", "PyEval_", "PyObject_",
                                                           "PyFunction_"};
constexpr std::array<std::string_view, 3> kHiddenNames = {"unwind::unwind", "CapturedTraceback::gather",
                                                          "gather_with_cpp"};
constexpr std::array<std::string_view, 10> kHiddenFiles = {"core/boxing",
                                                           "/Register",
                                                           "/Redispatch",
                                                           "pythonrun.c",
                                                           "Modules/main.c",
                                                           "Objects/call.c",
                                                           "Objects/methodobject.c",
                                                           "pycore_ceval.h",
                                                           "ceval.c",
                                                           "cpython/abstract.h"};
constexpr std::array<std::string_view, 8> kFrameworkFiles = {"/torch/", "torch/_",     "torch/csrc", "/aten/",
                                                             "/c10/",   "lib/python3", "??",         "<frozen"};
constexpr std::array<std::string_view, 6> kNativeEnds = {".cpp", ".cc", ".h", ".cu", ".cuh", ".so"};
constexpr std::array<std::string_view, 3> kFrameworkNames = {"at::", "c10::", "torch::"};
constexpr std::array<std::string_view, 2> kEmptyingNames = {"empty_cache", "emptyCache"};
constexpr std::array<std::string_view, 3> kBackwardNames = {"backward", "Backward", "autograd::Engine"};

bool has_any(std::string_view text, Words words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

bool begins_with_any(std::string_view text, Words words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.starts_with(word); });
}

}  // namespace

FrameTraits traits_of_filename(std::string_view path) {
  std::string filename(path);
  std::ranges::replace(filename, '\\', '/');  // of Windows
  FrameTraits traits;
  traits.is_hidden = has_any(filename, kHiddenFiles);
  traits.is_framework = filename.empty() || has_any(filename, kFrameworkFiles);
  traits.is_native = filename == "??" ||
                     std::ranges::any_of(kNativeEnds, [&](std::string_view end) { return filename.ends_with(end); });
  traits.in_optimizer = filename.find("/optim/") != std::string_view::npos;
  return traits;
}

FrameTraits traits_of_name(std::string_view name) {
  FrameTraits traits;
  traits.is_hidden = begins_with_any(name, kHiddenBegins) || has_any(name, kHiddenNames);
  traits.is_framework = has_any(name, kFrameworkNames);
  traits.is_native = name.find("::") != std::string_view::npos;
  traits.in_optimizer =
      name.find("optimizer") != std::string_view::npos || name.find("Optimizer") != std::string_view::npos;
  traits.in_backward = has_any(name, kBackwardNames);
  traits.in_forward = name.find("forward") != std::string_view::npos;
  traits.empties_cache = has_any(name, kEmptyingNames);
  return traits;
}

}  // namespace ridgepoint
