// A program that stands for a Python with PyTorch (tests/run/peers/fake_python.py).
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/files/temporary_folder.h"
#include "support/program/build_paths.h"

namespace ridgepoint {

class FakePython {
 public:
  explicit FakePython(const std::string& behaviour) : path_(folder_ / behaviour) {
    std::filesystem::create_symlink(source_folder() / "tests/run/peers/fake_python.py", path_);
  }
  std::string path() const { return path_.string(); }

  // The requests of all peers so far.
  std::vector<nlohmann::json> requests() const {
    std::ifstream file(folder_ / "requests");
    std::vector<nlohmann::json> requests;
    for (std::string line; std::getline(file, line);) requests.push_back(nlohmann::json::parse(line));
    return requests;
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

}  // namespace ridgepoint
