// Describes the processor (from /proc/cpuinfo on Linux). Unknown fields are zero or empty.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace ridgepoint {

struct Host {
  int sockets = 0;
  int cores = 0;                              // physical
  int threads = 0;                            // hardware threads
  std::vector<std::string> instruction_sets;  // for arithmetic, narrow to wide: avx2 fma avx512f
};

Host describe_host();
// The same from a text laid out like /proc/cpuinfo.
Host parse_cpuinfo(std::istream& text);

}  // namespace ridgepoint
