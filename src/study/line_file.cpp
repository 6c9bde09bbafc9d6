#include "study/line_file.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>

#include "core/files/file.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

}  // namespace

std::vector<std::string> complete_lines(const fs::path& path) {
  std::vector<std::string> lines;
  if (!fs::exists(path)) return lines;
  const std::string text = read_file(path, kMostBytes);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

void throw_damaged(const fs::path& path, std::string_view problem) {
  throw Error(fmt::format("'{}' is damaged: {}; give --restart to measure everything again", path.string(), problem));
}

std::vector<Json> json_lines(const fs::path& path) {
  std::vector<Json> rows;
  for (const std::string& line : complete_lines(path)) {
    const std::string what = fmt::format("line {}", rows.size() + 1);
    try {
      rows.push_back(parse_json(line, what));
    } catch (const JsonError& error) {
      throw_damaged(path, error.what());
    }
    if (!rows.back().is_object()) throw_damaged(path, what + " is not a row");
  }
  return rows;
}

void append_line(const fs::path& path, std::string_view line) {
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << (std::string(line) + "\n") << std::flush;
  if (!file) throw Error(fmt::format("cannot write to '{}'", path.string()));
}

void keep_lines(const fs::path& path, std::size_t count) {
  std::string kept;
  std::size_t at = 0;
  for (const std::string& line : complete_lines(path)) {
    if (at++ == count) break;
    kept += line + "\n";
  }
  write_file(path, kept);
}

bool drop_incomplete_line(const fs::path& path) {
  if (!fs::exists(path)) return false;
  const std::string text = read_file(path, kMostBytes);
  const std::size_t end = text.rfind('\n') + 1;  // 0 without one
  if (end == text.size()) return false;
  fs::resize_file(path, end);
  return true;
}

}  // namespace ridgepoint
