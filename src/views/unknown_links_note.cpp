#include "views/unknown_links_note.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "measure/machine/datasheet.h"
#include "measure/record/fields.h"
#include "measure/time/kernel_rates.h"

namespace ridgepoint::views {
namespace {

bool lacks_links_alone(const Record& record) {
  if (record.status != RunStatus::ok || !record.plan || record.plan->predicted_ms || !record.plan->card) return false;
  if (!section_of(record.training_step).parallel.data) return false;
  const Datasheet* sheet = find_datasheet(*record.plan->card);
  return sheet != nullptr && !sheet->link_bytes_per_second && KernelRates::of(*sheet).has_value();
}

}  // namespace

std::string unknown_links_note(std::span<const Record> records) {
  std::set<std::string> cards;
  for (const Record& record : records) {
    if (lacks_links_alone(record)) cards.insert(*record.plan->card);
  }
  if (cards.empty()) return "";
  return fmt::format(
      "No time is predicted between ranks on {}, because the links of such cards differ; name them, as "
      "--network \"8x PCIe 32 GB/s\".",
      fmt::join(cards, ", "));
}

}  // namespace ridgepoint::views
