#include "train/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "core/files/checksum.h"
#include "core/files/file.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "ridgepoint checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kStepDigits = 9;

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

std::uint64_t checksum_of(std::string_view text) {
  Checksum sum;
  sum.add(text);
  return sum.value();
}

const Json& field(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) throw_error("it has no '{}'", key);
  return *found;
}

std::string text_in(const Json& object, const char* key) {
  const Json& found = field(object, key);
  if (!found.is_string()) throw_error("its '{}' is no text", key);
  return found.get<std::string>();
}

std::int64_t count_in(const Json& object, const char* key) {
  const Json& found = field(object, key);
  const bool fits = found.is_number_unsigned() && found.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
  if (!fits) throw_error("its '{}' is no whole number from 0 on", key);
  return found.get<std::int64_t>();
}

std::uint64_t number_of_hex(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) throw_error("{} is no checksum", quote_name(text));
  return number;
}

// The text of the file's own checksum.
Json without_checksum(const ManifestContents& contents) {
  const Manifest& manifest = contents.manifest;
  Json tensors = Json::object();
  for (const auto& [name, type] : contents.tensors) {
    Json shape = Json::array();
    for (const Dim& dim : type.shape.dims()) shape.push_back(dim.size);
    tensors.get_ref<Json::object_t&>().push_back({name, {{"dtype", ridgepoint::name(type.dtype)}, {"shape", shape}}});
  }
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"revision", manifest.revision},
               {"step", manifest.step},
               {"sequences", manifest.sequences},
               {"ranks", manifest.ranks},
               {"run", manifest.run},
               {"files", files_json(contents.files)},
               {"tensors", tensors}};
  if (manifest.noise) json["noise"] = *manifest.noise;
  return json;
}

std::optional<std::array<double, 2>> noise_in(const Json& json) {
  const auto found = json.find("noise");
  if (found == json.end()) return std::nullopt;
  if (!found->is_array() || found->size() != 2 || !(*found)[0].is_number() || !(*found)[1].is_number())
    throw Error("its 'noise' are no two numbers");
  return std::array{(*found)[0].get<double>(), (*found)[1].get<double>()};
}

TensorType tensor_type(const Json& json) {
  const Json& sizes = field(json, "shape");
  if (!sizes.is_array() || sizes.size() > static_cast<std::size_t>(kMaxRank))
    throw Error("it has a shape that is none");
  std::vector<Dim> dims;
  for (const Json& size : sizes) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
      throw Error("it has a shape that is none");
    dims.emplace_back(size.get<std::int64_t>());
  }
  TensorType type{dtype_from_name(text_in(json, "dtype")), Shape(std::span<const Dim>(dims))};
  type.bytes();  // throws where it has more than 64 bits
  return type;
}

ManifestContents contents_of(const Json& json) {
  if (text_in(json, "format") != kFormat) throw Error("it is of another format");
  if (const std::int64_t version = count_in(json, "version"); version != kVersion)
    throw_error("it has version {}, and this program reads version {}", version, kVersion);
  ManifestContents contents;
  Manifest& manifest = contents.manifest;
  manifest.revision = text_in(json, "revision");
  manifest.step = count_in(json, "step");
  manifest.sequences = count_in(json, "sequences");
  manifest.ranks = count_in(json, "ranks");
  manifest.noise = noise_in(json);
  manifest.run = field(json, "run");
  contents.files = files_from_json(field(json, "files"));
  const Json& tensors = field(json, "tensors");
  if (!tensors.is_object()) throw Error("its 'tensors' are no object");
  for (const auto& [name, type] : tensors.items()) contents.tensors.emplace(name, tensor_type(type));
  if (number_of_hex(text_in(json, "checksum")) != checksum_of(dump_json(without_checksum(contents))))
    throw Error("its checksum is of another text");
  return contents;
}

// Whether a name leads to a file of the folder, or of a folder in it.
bool is_within(const std::string& name) {
  if (name.find('\\') != std::string::npos || name.find('\0') != std::string::npos) return false;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::uint64_t checksum_of_file(const InputFile& file) {
  constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  std::vector<std::byte> piece(kPieceBytes);
  Checksum sum;
  while (sum.size_bytes() < file.size_bytes()) {
    const std::span<std::byte> next(piece.data(),
                                    std::min<std::uint64_t>(file.size_bytes() - sum.size_bytes(), kPieceBytes));
    file.read_at(sum.size_bytes(), next);
    sum.add(next);
  }
  return sum.value();
}

}  // namespace

Json files_json(const std::vector<CheckpointFile>& files) {
  Json list = Json::array();
  for (const CheckpointFile& file : files)
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", hex(file.checksum)}});
  return list;
}

std::vector<CheckpointFile> files_from_json(const Json& json) {
  if (!json.is_array()) throw Error("its 'files' are no list");
  std::vector<CheckpointFile> files;
  for (const Json& one : json) {
    std::string name = text_in(one, "name");
    if (!is_within(name)) throw_error("its file {} is outside of its folder", quote_name(name));
    files.push_back(
        {std::move(name), static_cast<std::uint64_t>(count_in(one, "bytes")), number_of_hex(text_in(one, "checksum"))});
  }
  return files;
}

std::string manifest_text(const ManifestContents& contents) {
  Json json = without_checksum(contents);
  json["checksum"] = hex(checksum_of(dump_json(json)));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ManifestContents read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw_error("'{}' has no {}: it is half a checkpoint", checkpoint.string(), kManifestFile);
  try {
    return contents_of(parse_json(read_file(path, kMostBytes)));
  } catch (const std::exception& error) {
    throw_error("'{}' is damaged: {}", path.string(), error.what());
  }
}

std::string step_folder(std::int64_t step) { return fmt::format("{}{:0{}}", kStepPrefix, step, kStepDigits); }

std::int64_t step_of_folder(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return -1;
  const std::string_view digits = name.substr(kStepPrefix.size());
  constexpr std::size_t kMostDigits = 18;
  if (digits.size() < kStepDigits || digits.size() > kMostDigits || !is_digits(digits)) return -1;
  std::int64_t step = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return step;
}

std::vector<std::pair<std::int64_t, fs::path>> checkpoints_in(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::int64_t step = step_of_folder(entry->path().filename().string());
    if (step >= 0) found.emplace_back(step, entry->path());
  }
  std::ranges::sort(found, std::ranges::greater{});
  return found;
}

std::string problem_of_files(const fs::path& checkpoint, const std::vector<CheckpointFile>& files, bool reads) {
  for (const CheckpointFile& file : files) {
    const std::string path = (checkpoint / file.name).string();
    try {
      const InputFile opened(path);
      if (opened.size_bytes() != file.bytes)
        return fmt::format("'{}' is damaged: it has {} bytes, and {} were written", path, opened.size_bytes(),
                           file.bytes);
      if (reads && checksum_of_file(opened) != file.checksum)
        return fmt::format("'{}' is damaged: its checksum is not that of what was written", path);
    } catch (const Error& error) {
      return error.what();
    }
  }
  return "";
}

}  // namespace ridgepoint::train
