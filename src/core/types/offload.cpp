#include "ridgepoint/offload.h"

#include <string>

#include "core/types/enum_names.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// Of the sets, by their values.
constexpr auto kOffloadNames =
    enum_names<Offload>("none", "optimizer", "parameters", "optimizer,parameters", "activations",
                        "optimizer,activations", "parameters,activations", "optimizer,parameters,activations", "auto");

Offload parse_one(std::string_view text) {
  constexpr std::string_view kNames[] = {"none", "optimizer", "parameters", "activations", "auto"};
  const std::optional<Offload> one = kOffloadNames.find(text);
  if (!one || text.find(',') != std::string_view::npos) refuse_name(text, "'{}' is unknown", kNames);
  return *one;
}

}  // namespace

std::string_view name(Offload offload) { return kOffloadNames[offload]; }

Offload offload_from_name(std::string_view text) {
  Offload set = Offload::none;
  for (std::string_view rest = text; true; rest.remove_prefix(rest.find(',') + 1)) {
    const Offload one = parse_one(rest.substr(0, rest.find(',')));
    const bool is_last = rest.find(',') == std::string_view::npos;
    const bool stands_alone = one == Offload::none || one == Offload::automatic;
    if (stands_alone && (set != Offload::none || !is_last)) {
      throw Error("'" + std::string(name(one)) + "' stands alone, not in a list as in '" + std::string(text) + "'",
                  ErrorKind::usage);
    }
    set = set | one;
    if (is_last) return set;
  }
}

}  // namespace ridgepoint
