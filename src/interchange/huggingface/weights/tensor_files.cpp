#include "interchange/huggingface/weights/tensor_files.h"

#include "core/text/throw_error.h"
#include "interchange/huggingface/config/config_fields.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

constexpr const char* kFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::string_view kIndexEnd = ".index.json";

std::filesystem::path weights_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {kIndex, kFile}) {
    if (std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  const bool has_pickle = std::filesystem::exists(folder / "pytorch_model.bin", ignored) ||
                          std::filesystem::exists(folder / "pytorch_model.bin.index.json", ignored);
  throw_error("the folder '{}' has neither {} nor {}{}", folder.string(), kFile, kIndex,
              has_pickle ? "; pytorch_model.bin is not read: save the model as safetensors" : "");
}

// A file beside the index: a plain name, which leads to no other folder.
std::string checked_file_name(const Json& value, const std::string& tensor, const std::string& index) {
  if (!value.is_string()) throw_error("'{}': the file of tensor {} is no string", index, quote_name(tensor));
  std::string name = value.get<std::string>();
  const bool is_plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                        name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
  if (!is_plain)
    throw_error("'{}': the file {} of tensor {} is outside the folder of the index", index, quote_name(name),
                quote_name(tensor));
  return name;
}

}  // namespace

TensorFiles::TensorFiles(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) path_ = weights_in(path);
  if (path_.filename().string().ends_with(kIndexEnd)) {
    open_index();
    return;
  }
  files_.push_back(std::make_unique<SafetensorsFile>(path_));
  for (std::string& name : files_.back()->names()) file_of_.emplace(std::move(name), files_.back().get());
}

void TensorFiles::open_index() {
  const std::string index = path_.string();
  const Json json = read_json_object(path_, kMaxIndexBytes);
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty())
    throw_error("'{}' has no weight_map, which says in which file each tensor is", index);
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [tensor, value] : map->items()) {
    const std::string name = checked_file_name(value, tensor, index);
    const SafetensorsFile*& file = opened[name];
    if (file == nullptr) {
      const std::filesystem::path shard = path_.parent_path() / name;
      std::error_code ignored;
      if (!std::filesystem::exists(shard, ignored))
        throw_error("'{}' names the file {}, which is missing", index, quote_name(name));
      file = files_.emplace_back(std::make_unique<SafetensorsFile>(shard)).get();
    }
    if (!file->contains(tensor))
      throw_error("'{}' says that tensor {} is in {}, which lacks it", index, quote_name(tensor), quote_name(name));
    file_of_.emplace(tensor, file);
  }
  for (const std::unique_ptr<SafetensorsFile>& file : files_) {
    for (const std::string& tensor : file->names()) {
      if (file_of_.contains(tensor)) continue;
      throw_error("'{}' has the tensor {}, which the weight_map of '{}' lacks", file->path().string(),
                  quote_name(tensor), index);
    }
  }
}

const TensorType& TensorFiles::type(std::string_view name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) return found->second->type(name);
  throw_error("'{}' has no tensor {}", path_.string(), quote_name(name));
}

HostTensor TensorFiles::read(std::string_view name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) return found->second->read(name);
  throw_error("'{}' has no tensor {}", path_.string(), quote_name(name));
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

}  // namespace ridgepoint
