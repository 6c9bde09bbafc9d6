// What a replay says: a row a setting, and sentences.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/text.h"
#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "inspect/memory/pages/parts.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

using From = MemoryReplay::CapacityFrom;

constexpr auto kFromNames = enum_names<From>("none", "option", "free_at_failure", "peak_before_failure");

Cell size_cell(const std::optional<std::uint64_t>& bytes) { return bytes ? Cell(format_bytes(*bytes)) : Cell(); }

std::string_view capacity_is(From from) {
  switch (from) {
    case From::option: return "what --capacity gives";
    case From::free_at_failure: return "what was reserved when a request failed, and what the device had free then";
    case From::peak_before_failure:
      return "the most that was reserved in the file: a limit below the device's memory refused more";
    case From::nothing: break;
  }
  return "";
}

std::string recorded_sentence(const MemoryReplay& replay) {
  const MemoryLevels& recorded = replay.recorded;
  if (recorded.reserved_bytes < recorded.active_bytes)
    return fmt::format("The file's own peak is {} allocated; its segments are not in it.",
                       format_bytes(recorded.allocated_bytes));
  const std::string peaks = fmt::format("The file's own peaks are {} allocated and {} reserved",
                                        format_bytes(recorded.allocated_bytes), format_bytes(recorded.reserved_bytes));
  if (!replay.begins_with_recorded || replay.omitted_blocks > 0) return peaks + ".";
  const ReplayedSetting& own = replay.settings.front();
  if (own.fits == false && replay.has_failure)
    return peaks + "; the replay with the file's own setting fails too, and its figures are those without a limit.";
  if (own.allocated_bytes == recorded.allocated_bytes && own.reserved_bytes == recorded.reserved_bytes)
    return peaks + "; the replay with the file's own setting has the same.";
  return peaks + fmt::format("; the replay with the file's own setting has {} and {}.",
                             format_bytes(own.allocated_bytes), format_bytes(own.reserved_bytes));
}

std::string least_sentence(const MemoryReplay& replay) {
  if (!replay.least) return "";
  const ReplayedSetting& least = replay.settings[*replay.least];
  const std::uint64_t needed = *least.least_capacity_bytes;
  if (replay.settings.size() == 1) return fmt::format("{} suffice with {}.", format_bytes(needed), least.setting);
  const bool is_same = std::ranges::all_of(
      replay.settings, [&](const ReplayedSetting& setting) { return setting.least_capacity_bytes == needed; });
  if (is_same) return fmt::format("Every setting needs the same: {}.", format_bytes(needed));
  const std::optional<std::uint64_t>& own = replay.settings.front().least_capacity_bytes;
  std::string text = fmt::format("{} needs least: {}", printable(least.setting), format_bytes(needed));
  if (own && *own > needed)
    text += fmt::format(", {} less than {}", format_bytes(*own - needed), printable(replay.settings.front().setting));
  return text + ".";
}

// As a part of a sentence.
std::string_view words_of(const ReplayedSetting& setting) {
  return setting.setting == "default" ? std::string_view("the default settings") : setting.setting;
}

}  // namespace

Table replay_table(const MemoryReplay& replay) {
  Table table;
  table.columns = {left("setting"),     right("reserved"),      right("allocated"), right("reserved, free", 2),
                   right("retries", 3), right("least capacity")};
  constexpr std::size_t kLeastFits = 24;
  if (replay.capacity_bytes) {
    table.columns.push_back(left("fits"));
    table.least_last_columns = kLeastFits;
  }
  for (const ReplayedSetting& setting : replay.settings) {
    const bool is_own = replay.begins_with_recorded && &setting == &replay.settings.front();
    Cells cells = {setting.setting + (is_own ? " (the file's)" : ""),
                   size_cell(setting.reserved_bytes),
                   size_cell(setting.allocated_bytes),
                   size_cell(setting.unused_bytes),
                   count_cell(setting.retries),
                   size_cell(setting.least_capacity_bytes)};
    if (setting.fits) {
      cells.emplace_back(*setting.fits ? std::string("yes")
                                       : fmt::format("no: {} at event {}, in {}", format_bytes(setting.failure->bytes),
                                                     setting.failure->event, setting.failure->origin));
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string avoidance_sentence(const MemoryReplay& replay) {
  if (!replay.has_failure || !replay.capacity_bytes) return "";
  std::vector<const ReplayedSetting*> fitting;
  for (const ReplayedSetting& setting : replay.settings)
    if (setting.fits == true) fitting.push_back(&setting);
  const std::string capacity = format_bytes(*replay.capacity_bytes);
  if (fitting.empty()) {
    std::string text = "No setting that was replayed would have avoided the failure";
    if (!replay.least) return text + ".";
    const std::uint64_t needed = *replay.settings[*replay.least].least_capacity_bytes;
    return text + fmt::format(": the requests need {} even with {}, and {} were allowed.", format_bytes(needed),
                              words_of(replay.settings[*replay.least]), capacity);
  }
  if (fitting.front() == &replay.settings.front() && replay.omitted_blocks > 0) {
    return fmt::format(
        "Without the blocks that are left out, all requests fit into {} with {}, the failed ones included.", capacity,
        words_of(*fitting.front()));
  }
  if (fitting.front() == &replay.settings.front()) {
    return fmt::format(
        "The replay fits into {} with {}. So the cause of the failure is not in the history: other memory on the "
        "device, or older blocks.",
        capacity, words_of(replay.settings.front()));
  }
  const ReplayedSetting& best = **std::ranges::min_element(fitting, {}, [](const ReplayedSetting* setting) {
    return setting->least_capacity_bytes.value_or(setting->reserved_bytes);
  });
  const ReplayedSetting& own = replay.settings.front();
  std::string text = fmt::format(
      "PYTORCH_CUDA_ALLOC_CONF={} would have avoided the failure: replayed with it, all {} requests fit into {}, the "
      "failed ones included, and reserve {}. Replayed with {}, {} at event {} do not fit.",
      best.setting, replay.allocations, capacity, format_bytes(best.reserved_bytes), words_of(own),
      format_bytes(own.failure->bytes), own.failure->event);
  std::vector<std::string> others;
  for (const ReplayedSetting* setting : fitting)
    if (setting != &best) others.push_back(setting->setting);
  if (!others.empty()) text += fmt::format(" {} would have avoided it too.", fmt::join(others, "; "));
  return text;
}

std::string replay_sentences(const MemoryReplay& replay) {
  std::vector<std::string> lines = {recorded_sentence(replay)};
  if (replay.capacity_bytes)
    lines.push_back(
        fmt::format("Capacity: {}, {}.", format_bytes(*replay.capacity_bytes), capacity_is(replay.capacity_from)));
  if (replay.capacity_bytes && *replay.capacity_bytes < replay.largest_bytes)
    lines.push_back(
        fmt::format("The largest request has {}, more than the capacity.", format_bytes(replay.largest_bytes)));
  lines.push_back(least_sentence(replay));
  if (replay.omitted_blocks > 0) {
    lines.push_back(fmt::format("Left out by --without '{}': {} block{}, up to {} at one time.",
                                printable(replay.without), replay.omitted_blocks, replay.omitted_blocks == 1 ? "" : "s",
                                format_bytes(replay.omitted_bytes)));
  }
  if (replay.older_blocks > 0) {
    lines.push_back(fmt::format(
        "{} block{} ({}) {} older than the history. The replay asks for {} first, so fragmentation from before the "
        "history is not in its figures.",
        replay.older_blocks, replay.older_blocks == 1 ? "" : "s", format_bytes(replay.older_bytes),
        replay.older_blocks == 1 ? "is" : "are", replay.older_blocks == 1 ? "it" : "them"));
  }
  lines.insert(lines.end(), replay.remarks.begin(), replay.remarks.end());
  lines.push_back(avoidance_sentence(replay));
  std::erase(lines, "");
  return fmt::format("{}", fmt::join(lines, "\n"));
}

Json json_of(const MemoryReplay& replay) {
  const auto figures = [](const ReplayedSetting& setting) {
    Json json = {{"setting", setting.setting},
                 {"reserved_bytes", setting.reserved_bytes},
                 {"allocated_bytes", setting.allocated_bytes},
                 {"reserved_free_bytes", setting.unused_bytes},
                 {"retries", setting.retries},
                 {"least_capacity_bytes", or_null(setting.least_capacity_bytes)},
                 {"fits", or_null(setting.fits)},
                 {"failure", nullptr}};
    if (setting.failure) {
      json["failure"] = {{"event", setting.failure->event},
                         {"requested_bytes", setting.failure->bytes},
                         {"frame", setting.failure->origin}};
    }
    return json;
  };
  Json json = figures(replay.settings.front());
  json["capacity_bytes"] = or_null(replay.capacity_bytes);
  json["capacity_from"] = kFromNames[replay.capacity_from];
  json["requests"] = replay.allocations;
  json["largest_request_bytes"] = replay.largest_bytes;
  json["recorded_reserved_bytes"] = replay.recorded.reserved_bytes;
  json["recorded_allocated_bytes"] = replay.recorded.allocated_bytes;
  json["older_blocks"] = replay.older_blocks;
  json["older_bytes"] = replay.older_bytes;
  json["left_out_blocks"] = replay.omitted_blocks;
  json["left_out_bytes"] = replay.omitted_bytes;
  json["least"] = replay.least ? Json(replay.settings[*replay.least].setting) : Json(nullptr);
  json["settings"] = json_list(replay.settings, figures);
  json["avoidance"] = text_or_null(avoidance_sentence(replay));
  json["remarks"] = replay.remarks;
  return json;
}

Table replay_rows(const SnapshotFileView& file) {
  Table table = with_columns({"device", "setting", "reserved_bytes", "allocated_bytes", "reserved_free_bytes",
                              "retries", "least_capacity_bytes", "fits"});
  for (std::size_t i = 0; i < file.devices.size(); ++i) {
    if (!file.replays[i]) continue;
    for (const ReplayedSetting& setting : file.replays[i]->settings) {
      table.add({file.devices[i].device, setting.setting, count_cell(setting.reserved_bytes),
                 count_cell(setting.allocated_bytes), count_cell(setting.unused_bytes), count_cell(setting.retries),
                 setting.least_capacity_bytes ? count_cell(*setting.least_capacity_bytes) : Cell(),
                 optional_cell(setting.fits)});
    }
  }
  return table;
}

}  // namespace ridgepoint::tables
