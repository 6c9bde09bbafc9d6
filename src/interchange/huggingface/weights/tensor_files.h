// The safetensors files of a model: one file, or shards with their index, model.safetensors.index.json:
// {"metadata": {"total_size": 14}, "weight_map": {"name": "model-00001-of-00002.safetensors", ...}}.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/safetensors.h"

namespace ridgepoint {

class TensorFiles {
 public:
  // A safetensors file, an index, or a folder with either; of both the index. Throws Error if there is none, if the
  // index is malformed, names a file outside its folder or one that is missing, or a tensor that its file lacks.
  explicit TensorFiles(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }  // of the file or the index
  bool contains(std::string_view name) const { return file_of_.contains(name); }
  // Throws Error where there is no such tensor.
  const TensorType& type(std::string_view name) const;
  HostTensor read(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted

 private:
  void open_index();

  std::filesystem::path path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*, std::less<>> file_of_;
};

}  // namespace ridgepoint
