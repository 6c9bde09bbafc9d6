// A condition that holds for every input: where it does not, the process ends and the fuzzer keeps the input.
#pragma once

#include <cstdio>
#include <cstdlib>

#define RIDGEPOINT_REQUIRE(condition)                                              \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)
