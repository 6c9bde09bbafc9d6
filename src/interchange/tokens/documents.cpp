#include "interchange/tokens/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "core/files/file.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "core/threads/parallel.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 30;
constexpr std::size_t kBatchBytes = std::size_t{64} << 20;

// The texts of JSON Lines.
std::vector<std::string> texts_of_lines(std::string_view content) {
  std::vector<std::string> texts;
  for (std::size_t line = 1; !content.empty(); ++line) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string_view text = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (trimmed(text).empty()) continue;
    const Json json = parse_json(text, fmt::format("line {}", line));
    const auto found = json.is_object() ? json.find("text") : json.end();
    if (!json.is_object() || found == json.end() || !found->is_string())
      throw_error("line {} has no member 'text' that is a text", line);
    texts.push_back(found->get<std::string>());
  }
  return texts;
}

}  // namespace

Documents::Documents(const std::string& path) : path_(path) {
  std::string content = read_file(path, kMostFileBytes);
  try {
    if (std::filesystem::path(path).extension() == ".jsonl") {
      texts_ = texts_of_lines(content);
    } else {
      texts_.push_back(std::move(content));
    }
  } catch (const Error& error) {
    throw_error(error.kind(), "{}: {}", quote_name(path), error.what());
  }
  if (bytes() == 0) throw_error("{} is empty: it has no text", quote_name(path));
}

std::uint64_t Documents::bytes() const {
  std::uint64_t bytes = 0;
  for (const std::string& text : texts_) bytes += text.size();
  return bytes;
}

void encode_documents(const Documents& documents, const tokenizer::Tokenizer& tokenizer, const EncodeOptions& options,
                      const std::function<void(std::span<const tokenizer::Id>)>& on_tokens) {
  // An encoder for each thread, which knows the words of the batches before.
  std::vector<std::unique_ptr<tokenizer::Encoder>> idle;
  std::mutex mutex;
  const auto take_encoder = [&] {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<tokenizer::Encoder>(tokenizer);
    std::unique_ptr<tokenizer::Encoder> encoder = std::move(idle.back());
    idle.pop_back();
    return encoder;
  };
  for (std::size_t begin = 0; begin < documents.size();) {
    std::size_t end = begin;
    for (std::size_t bytes = 0; end < documents.size() && (end == begin || bytes < kBatchBytes); ++end) {
      bytes += documents[end].size();
    }
    std::vector<std::vector<tokenizer::Id>> ids(end - begin);
    parallel_for(static_cast<std::int64_t>(ids.size()), 1, [&](std::int64_t first, std::int64_t last) {
      std::unique_ptr<tokenizer::Encoder> encoder = take_encoder();
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        try {
          encoder->encode(documents[begin + i], options.adds_special_tokens, ids[i]);
        } catch (const Error& error) {
          const std::string place = documents.size() > 1 ? fmt::format(", document {}", begin + i + 1) : "";
          throw_error(error.kind(), "{}{}: {}", quote_name(documents.path()), place, error.what());
        }
        if (options.end_token) ids[i].push_back(*options.end_token);
      }
      const std::lock_guard lock(mutex);
      idle.push_back(std::move(encoder));
    });
    for (const std::vector<tokenizer::Id>& of : ids) on_tokens(of);
    begin = end;
  }
}

}  // namespace ridgepoint
