// What this binary was built from, and the libraries that it finds when it runs.
#pragma once

#include <string>
#include <vector>

namespace ridgepoint {

struct BuildFact {
  std::string key;   // in files: build_type
  std::string name;  // for people: build type
  std::string text;
};

// Version, revision, compiler, instruction set, CUDA toolkit, libraries: those linked as they run, and of NVIDIA's,
// which are loaded for this, "not found" where they are missing.
std::vector<BuildFact> build_facts();

}  // namespace ridgepoint
