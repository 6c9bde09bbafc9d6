// A condition that must hold for every input: if it does not, the process aborts and the fuzzer keeps the input.
#pragma once

#include <cstdio>
#include <cstdlib>

#define RIDGEPOINT_REQUIRE(condition)                                                          \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "%s:%d: condition is false: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                            \
    }                                                                                          \
  } while (false)
