// CUPTI, NVIDIA's profiling library, as a table of entry points, found at run time like the driver.
#pragma once

#include <cupti.h>

#include <string>
#include <string_view>

namespace ridgepoint::cuda {

// clang-format indents such a list of calls further every time.
// clang-format off
#define RIDGEPOINT_CUPTI_FUNCTIONS(F) \
  F(cuptiGetVersion) F(cuptiGetResultString) F(cuptiGetTimestamp) F(cuptiSubscribe) F(cuptiUnsubscribe) \
  F(cuptiActivityRegisterCallbacks) F(cuptiActivityEnable) F(cuptiActivityDisable) F(cuptiActivityFlushAll) \
  F(cuptiActivityGetNextRecord) F(cuptiActivityGetNumDroppedRecords) \
  F(cuptiActivityPushExternalCorrelationId) F(cuptiActivityPopExternalCorrelationId)
// clang-format on

struct Cupti {
#define RIDGEPOINT_CUPTI_MEMBER(name) \
  decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a declaration
  RIDGEPOINT_CUPTI_FUNCTIONS(RIDGEPOINT_CUPTI_MEMBER)
#undef RIDGEPOINT_CUPTI_MEMBER
};

// Throws Error (unsupported) when the library is not there, or lacks a function; says which.
const Cupti& cupti();
// The same from a library of another name, not kept.
Cupti open_cupti(std::string_view file);

// Throws Error: what was being done, what the library says of it, and what helps. `doing` continues "CUPTI could not".
[[noreturn]] void throw_cupti_error(const Cupti& table, CUptiResult result, const char* doing);
inline void check(const Cupti& table, CUptiResult result, const char* doing) {
  if (result != CUPTI_SUCCESS) [[unlikely]]
    throw_cupti_error(table, result, doing);
}

}  // namespace ridgepoint::cuda
