#include "interchange/trace/read_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "interchange/trace/event_scanner.h"
#include "interchange/trace/nsys.h"
#include "interchange/trace/trace_collector.h"

namespace ridgepoint {
namespace {

// Files that people take for traces, by their first bytes, and what to do with them.
struct KnownFile {
  std::string_view begin;
  std::string_view what;
};
constexpr std::array kKnownFiles = {
    KnownFile{"\x80", "it is a pickle; `ridgepoint snapshot` reads memory snapshots"},
    KnownFile{"PK\x03\x04", "it is a zip archive: unpack it first"},
    KnownFile{"\x28\xb5\x2f\xfd", "it is compressed by zstd: unpack it first (zstd -d)"},
    KnownFile{kSqliteBegin, "it is an SQLite database in gzip: unpack it first (gunzip)"},
    KnownFile{"\x7f"
              "ELF",
              "it is a program"},
    KnownFile{"<", "it is HTML or XML"},
};

constexpr std::string_view kWhatWritesOne =
    "PyTorch's profiler writes a trace with export_chrome_trace(), and `ridgepoint profile --trace FILE` another";

std::string what_it_is(std::string_view begin) {
  for (const KnownFile& known : kKnownFiles)
    if (begin.starts_with(known.begin)) return std::string(known.what);
  return fmt::format("it is neither Chrome trace JSON, plain or in gzip, nor an nsys export in SQLite; {}",
                     kWhatWritesOne);
}

// What nsys stats printed, with what it says before its tables; empty for another text.
std::optional<Trace> read_sums(ByteStream& bytes) {
  constexpr std::size_t kMostBytesBefore = std::size_t{1} << 16U;
  const auto text_of = [&](std::size_t wanted) {
    const std::size_t available = std::min(bytes.request(wanted), wanted);
    return std::string_view(reinterpret_cast<const char*>(bytes.next()), available);
  };
  if (!begins_nsys_stats(text_of(kMostBytesBefore))) return std::nullopt;
  return read_nsys_stats(text_of(ByteStream::kMaxRequestBytes));
}

Trace read_document(const std::filesystem::path& path, ByteStream& bytes, const ByteStream::OnProgress& on_progress) {
  if (const auto extension = path.extension(); extension == ".nsys-rep" || extension == ".qdrep")
    throw_error("it is a report of nsys, whose form is not public; first run: nsys export --type sqlite {}",
                path.string());
  constexpr std::size_t kLookedAt = 64;
  const std::size_t available = bytes.request(kLookedAt);
  if (available == 0) throw Error("it is empty");
  const std::string_view all(reinterpret_cast<const char*>(bytes.next()), std::min(available, kLookedAt));
  if (all.starts_with(kSqliteBegin) && !bytes.is_compressed()) return read_nsys_export(path, on_progress);
  const std::string_view begin = without_byte_order_mark(all);
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  const char found = first == std::string_view::npos ? '\0' : begin[first];
  if (found != '{' && found != '[') {
    if (auto sums = read_sums(bytes)) return std::move(*sums);
    throw Error(what_it_is(begin));
  }
  bytes.set_next(bytes.next() + (all.size() - begin.size()));
  TraceCollector collector;
  if (!scan_events(bytes, collector)) {
    const bool is_cut_off = collector.trace().fault(TraceFault::cut_off) > 0;
    throw_error("it is JSON {} a list `traceEvents`; {}", is_cut_off ? "that ends before" : "without", kWhatWritesOne);
  }
  Trace trace = collector.finish();
  trace.format = bytes.is_compressed() ? "Chrome trace, gzip" : "Chrome trace";
  if (trace.events == 0 && found == '[') throw_error("it is a JSON list without events; {}", kWhatWritesOne);
  return trace;
}

}  // namespace

Trace read_trace(const std::filesystem::path& path, const ByteStream::OnProgress& on_progress) {
  ByteStream bytes(path, on_progress);
  try {
    Trace trace = read_document(path, bytes, on_progress);
    trace.path = path.string();
    return trace;
  } catch (const Error& error) {
    throw_error("'{}' cannot be read as a profiler's trace: {}", path.string(), error.what());
  }
}

}  // namespace ridgepoint
