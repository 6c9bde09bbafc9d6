#include "interchange/trace/nsys.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "interchange/trace/trace_collector.h"

namespace ridgepoint {
namespace {

struct Database;
struct Statement;

// The functions of SQLite that are called, with the values of its constants.
class Sqlite {
 public:
  static constexpr int kOk = 0, kRow = 100, kDone = 101, kReadOnly = 1;

  Sqlite() {
    void* library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw Error("it is an SQLite database, and libsqlite3.so.0 is not here: apt-get install libsqlite3-0",
                  ErrorKind::unsupported);
    const auto load = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      if (function == nullptr) throw_error(ErrorKind::unsupported, "libsqlite3.so.0 has no {}", symbol);
    };
    load(open, "sqlite3_open_v2");
    load(close, "sqlite3_close_v2");
    load(message, "sqlite3_errmsg");
    load(prepare, "sqlite3_prepare_v2");
    load(step, "sqlite3_step");
    load(integer, "sqlite3_column_int64");
    load(text, "sqlite3_column_text");
    load(bytes, "sqlite3_column_bytes");
    load(finalize, "sqlite3_finalize");
  }

  int (*open)(const char*, Database**, int, const char*) = nullptr;
  int (*close)(Database*) = nullptr;
  const char* (*message)(Database*) = nullptr;
  int (*prepare)(Database*, const char*, int, Statement**, const char**) = nullptr;
  int (*step)(Statement*) = nullptr;
  std::int64_t (*integer)(Statement*, int) = nullptr;
  const unsigned char* (*text)(Statement*, int) = nullptr;
  int (*bytes)(Statement*, int) = nullptr;
  int (*finalize)(Statement*) = nullptr;
};

// The columns of a row.
class Row {
 public:
  Row(const Sqlite& sqlite, Statement* statement) : sqlite_(sqlite), statement_(statement) {}
  std::int64_t integer(int column) const { return sqlite_.integer(statement_, column); }
  std::string_view text(int column) const {
    const unsigned char* begin = sqlite_.text(statement_, column);
    if (begin == nullptr) return {};
    return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(sqlite_.bytes(statement_, column))};
  }

 private:
  const Sqlite& sqlite_;
  Statement* statement_;
};

class NsysExport {
 public:
  explicit NsysExport(const std::filesystem::path& path) {
    const int result = sqlite_.open(path.c_str(), &database_, Sqlite::kReadOnly, nullptr);
    if (result != Sqlite::kOk) {
      const std::string why = sqlite_.message(database_);
      sqlite_.close(database_);
      throw Error(why);
    }
  }
  ~NsysExport() { sqlite_.close(database_); }
  NsysExport(const NsysExport&) = delete;
  NsysExport& operator=(const NsysExport&) = delete;

  // Calls `take` for each row. A query of tables or columns that the database does not have gives none.
  template <typename Take>
  bool rows(const std::string& query, Take take) const {
    Statement* statement = nullptr;
    if (sqlite_.prepare(database_, query.c_str(), -1, &statement, nullptr) != Sqlite::kOk) return false;
    int result = Sqlite::kRow;
    try {
      while ((result = sqlite_.step(statement)) == Sqlite::kRow) take(Row(sqlite_, statement));
    } catch (...) {
      sqlite_.finalize(statement);
      throw;
    }
    sqlite_.finalize(statement);
    is_damaged_ = is_damaged_ || result != Sqlite::kDone;
    return true;
  }
  bool is_damaged() const { return is_damaged_; }

 private:
  Sqlite sqlite_;
  Database* database_ = nullptr;
  mutable bool is_damaged_ = false;
};

// What runs on devices, by table: the columns of name (an index into StringIds, or none), and the kind.
struct ActivityTable {
  const char* table;
  const char* name;
  ActivityKind kind;
  std::string_view fixed_name;
};
constexpr std::array kActivityTables = {
    ActivityTable{"CUPTI_ACTIVITY_KIND_KERNEL", "demangledName", ActivityKind::kernel, ""},
    ActivityTable{"CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", ActivityKind::copy, "Memcpy"},
    ActivityTable{"CUPTI_ACTIVITY_KIND_MEMSET", "0", ActivityKind::fill, "Memset"},
    ActivityTable{"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "0", ActivityKind::kernel, "CUDA graph"},
};

class NsysReader {
 public:
  NsysReader(const std::filesystem::path& path, const std::function<void(double)>& on_progress)
      : database_(path), on_progress_(on_progress) {}

  Trace read() {
    database_.rows("SELECT id, value FROM StringIds",
                   [&](const Row& row) { strings_[row.integer(0)] = collector_.name(row.text(1)); });
    database_.rows("SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER",
                   [&](const Row& row) { copies_[row.integer(0)] = fmt::format("Memcpy {}", row.text(1)); });
    bool is_nsys = false;
    for (const ActivityTable& table : kActivityTables) is_nsys = read_activities(table) || is_nsys;
    is_nsys = read_calls() || is_nsys;
    is_nsys = read_ranges() || is_nsys;
    if (!is_nsys) throw Error("it is an SQLite database without the tables of `nsys export --type sqlite`");
    read_devices();
    Trace trace = collector_.finish();
    if (database_.is_damaged()) trace.fault(TraceFault::cut_off) = 1;
    trace.format = "nsys export";
    return trace;
  }

 private:
  void add(TraceEvent event, std::int64_t begin_ns, std::int64_t end_ns,
           void (TraceCollector::*to)(const TraceEvent&)) {
    Trace& trace = collector_.trace();
    constexpr std::uint64_t kOften = 1 << 16;
    if (++trace.events % kOften == 0 && on_progress_) on_progress_(0.5);
    constexpr std::int64_t kMost = INT64_MAX / 4;
    if (begin_ns < -kMost || begin_ns > kMost || end_ns < -kMost || end_ns > kMost)
      ++trace.fault(TraceFault::beyond_63_bits);
    else if (end_ns < begin_ns)
      ++trace.fault(TraceFault::negative_duration);
    else if (!collector_.fits(end_ns - begin_ns))
      ++trace.fault(TraceFault::beyond_63_bits);
    else {
      event.start_ns = begin_ns;
      event.duration_ns = end_ns - begin_ns;
      (collector_.*to)(event);
    }
  }

  bool read_activities(const ActivityTable& table) {
    return database_.rows(
        fmt::format("SELECT start, end, deviceId, streamId, correlationId, {} FROM {}", table.name, table.table),
        [&](const Row& row) {
          TraceEvent event{.kind = table.kind};
          event.correlation = static_cast<std::uint64_t>(row.integer(4));
          event.name = table.fixed_name.empty() ? string(row.integer(5)) : collector_.name(table.fixed_name);
          if (table.kind == ActivityKind::copy && copies_.contains(row.integer(5)))
            event.name = collector_.name(copies_[row.integer(5)]);
          event.track = collector_.track(std::to_string(row.integer(2)), std::to_string(row.integer(3)));
          add(event, row.integer(0), row.integer(1), &TraceCollector::add_activity);
        });
  }

  bool read_calls() {
    return database_.rows("SELECT start, end, globalTid, correlationId, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
                          [&](const Row& row) {
                            const std::uint32_t name = string(row.integer(4));
                            if (call_of(name) == HostCall::other) return;
                            TraceEvent event{.correlation = static_cast<std::uint64_t>(row.integer(3)), .name = name};
                            event.track = thread(row.integer(2));
                            add(event, row.integer(0), row.integer(1), &TraceCollector::add_call);
                          });
  }

  // Ranges that are pushed and popped, which are those of record_function under emit_nvtx().
  bool read_ranges() {
    return database_.rows(
        "SELECT start, end, globalTid, coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) FROM "
        "NVTX_EVENTS "
        "WHERE eventType = 59 AND end IS NOT NULL",
        [&](const Row& row) {
          TraceEvent event{.name = collector_.name(row.text(3)), .track = thread(row.integer(2))};
          add(event, row.integer(0), row.integer(1), &TraceCollector::add_mark);
        });
  }

  void read_devices() {
    database_.rows("SELECT id, name FROM TARGET_INFO_GPU ORDER BY id", [&](const Row& row) {
      collector_.trace().devices.push_back({std::to_string(row.integer(0)), std::string(row.text(1))});
    });
  }

  std::uint32_t string(std::int64_t id) {
    const auto found = strings_.find(id);
    return found != strings_.end() ? found->second : collector_.name("(no name)");
  }

  // nsys puts the process into the upper bits of a thread's number.
  std::uint32_t thread(std::int64_t global) {
    constexpr int kThreadBits = 24;
    return collector_.track(fmt::format("process {}", global >> kThreadBits), std::to_string(global));
  }

  HostCall call_of(std::uint32_t name) {
    const auto [found, is_new] = calls_.try_emplace(name, HostCall::other);
    if (is_new) found->second = host_call(collector_.text_of(name));
    return found->second;
  }

  NsysExport database_;
  const std::function<void(double)>& on_progress_;
  TraceCollector collector_;
  std::unordered_map<std::int64_t, std::uint32_t> strings_;  // names by the id of their text
  std::unordered_map<std::int64_t, std::string> copies_;     // by kind
  std::unordered_map<std::uint32_t, HostCall> calls_;        // by name
};

bool is_heading(std::string_view line) {
  return line.find("Total Time (ns)") != std::string_view::npos && line.find("Instances") != std::string_view::npos &&
         line.find("Name") != std::string_view::npos;
}

// "…" of a name in a column that was too narrow stays.
std::string name_in(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || !text.starts_with('"') || !text.ends_with('"')) return std::string(text);
  std::string name(text.substr(1, text.size() - 2));
  for (std::size_t at = 0; (at = name.find("\"\"", at)) != std::string::npos; ++at) name.erase(at, 1);
  return name;
}

// Share, total, instances, average, median, least, most, standard deviation, then the name.
std::optional<TraceSum> row_in(std::string_view line, TraceCollector& collector) {
  std::array<double, 8> figures{};
  const char* at = line.data();
  const char* const end = line.data() + line.size();
  for (double& figure : figures) {
    while (at < end && (*at == ' ' || *at == ',')) ++at;
    const auto [behind, problem] = std::from_chars(at, end, figure);
    constexpr double kMost = 1e17;
    if (problem != std::errc() || !(figure >= 0 && figure < kMost)) return std::nullopt;
    at = behind;
  }
  if (at == end || (*at != ' ' && *at != ',')) return std::nullopt;
  constexpr double kMostCalls = 1e12;
  const auto& [share, total, instances, average, median, least, most, deviation] = figures;
  const std::string name = name_in(std::string_view(at + 1, static_cast<std::size_t>(end - at - 1)));
  const std::int64_t total_ns = std::llround(total);
  if (name.empty() || instances < 1 || instances > kMostCalls || !collector.fits(total_ns)) return std::nullopt;
  return TraceSum{.name = collector.name(name),
                  .calls = std::llround(instances),
                  .total_ns = total_ns,
                  .median_ns = median,
                  .least_ns = least,
                  .most_ns = most,
                  .deviation_ns = deviation};
}

}  // namespace

Trace read_nsys_export(const std::filesystem::path& path, const std::function<void(double share)>& on_progress) {
  return NsysReader(path, on_progress).read();
}

bool begins_nsys_stats(std::string_view begin) {
  const std::size_t at = begin.find("Time (%)");
  return at != std::string_view::npos && is_heading(begin.substr(at, begin.find('\n', at) - at));
}

Trace read_nsys_stats(std::string_view text) {
  TraceCollector collector;
  bool is_table = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find("Time (%)") != std::string_view::npos) is_table = is_heading(line);
    if (!is_table) continue;
    if (const auto row = row_in(line, collector)) collector.trace().sums.push_back(*row);
  }
  Trace trace = collector.finish();
  trace.format = "nsys stats";
  return trace;
}

}  // namespace ridgepoint
