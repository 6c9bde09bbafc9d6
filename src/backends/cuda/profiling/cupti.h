// CUPTI, NVIDIA's profiling library, as a table of functions, loaded at run time like the driver.
#pragma once

#include <string_view>

#include "backends/cuda/profiling/cupti_api.h"

namespace ridgepoint::cuda {

struct Cupti {
#define RIDGEPOINT_CUPTI_MEMBER(name, ...) CUptiResult (*name)(__VA_ARGS__) = nullptr;
  RIDGEPOINT_CUPTI_FUNCTIONS(RIDGEPOINT_CUPTI_MEMBER)
#undef RIDGEPOINT_CUPTI_MEMBER
};

// Throws Error (unsupported) that says whether the library or one of its functions is missing.
const Cupti& cupti();
// The same from another library file, loaded at every call.
Cupti open_cupti(std::string_view file);

// Throws Error with the failed action, the library's text and advice. `doing` completes "CUPTI could not ...".
[[noreturn]] void throw_cupti_error(const Cupti& table, CUptiResult result, const char* doing);
inline void check(const Cupti& table, CUptiResult result, const char* doing) {
  if (result != CUPTI_SUCCESS) [[unlikely]]
    throw_cupti_error(table, result, doing);
}

}  // namespace ridgepoint::cuda
