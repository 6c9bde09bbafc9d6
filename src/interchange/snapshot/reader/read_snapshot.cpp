#include "interchange/snapshot/reader/read_snapshot.h"

#include <fmt/format.h>

#include <string_view>

#include "interchange/snapshot/reader/json_reader.h"
#include "interchange/snapshot/reader/pickle_reader.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr std::uint8_t kPickleBegin = 0x80;

// The first byte that is neither white space nor a byte-order mark; 0 where the first bytes have none.
std::uint8_t first_significant(std::string_view begin) {
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3);
  const std::size_t at = begin.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos ? 0 : static_cast<std::uint8_t>(begin[at]);
}

Snapshot read_document(ByteStream& bytes) {
  constexpr std::size_t kLookedAt = 1024;
  const std::size_t available = bytes.request(kLookedAt);
  if (available == 0) throw Error("it is empty");
  const std::string_view begin(reinterpret_cast<const char*>(bytes.next()), std::min(available, kLookedAt));
  SnapshotCollector collector;
  Snapshot snapshot;
  if (static_cast<std::uint8_t>(begin.front()) == kPickleBegin) {
    PickleReader reader(bytes, collector);
    snapshot = collector.finish(reader.read());
    snapshot.format = fmt::format("pickle, protocol {}", reader.protocol());
  } else if (const std::uint8_t first = first_significant(begin); first == '{' || first == '[') {
    snapshot = collector.finish(read_snapshot_json(bytes, collector));
    snapshot.format = "JSON";
  } else {
    throw Error(
        "it is neither a pickle of protocol 2 to 5 nor JSON, plain or in gzip; torch.cuda.memory._dump_snapshot writes "
        "such a file");
  }
  if (bytes.is_compressed()) snapshot.format += ", gzip";
  return snapshot;
}

}  // namespace

Snapshot read_snapshot(const std::filesystem::path& path, const ByteStream::OnProgress& on_progress) {
  ByteStream bytes(path, on_progress);
  try {
    return read_document(bytes);
  } catch (const Error& error) {
    throw Error(fmt::format("'{}' cannot be read as a memory snapshot: {}", path.string(), error.what()));
  }
}

}  // namespace ridgepoint
