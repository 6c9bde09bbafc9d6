#include "ridgepoint/core/offload.h"

#include <string>

#include "core/types/enum_names.h"
#include "core/types/single_offloads.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

// Of the sets, by their values.
constexpr auto kOffloadNames =
    enum_names<Offload>("none", "optimizer", "parameters", "optimizer,parameters", "activations",
                        "optimizer,activations", "parameters,activations", "optimizer,parameters,activations", "auto");

Offload parse_one(std::string_view text) {
  for (const Offload one : kSingleOffloads) {
    if (name(one) == text) return one;
  }
  refuse_name(text, "'{}' is unknown", names_of(kSingleOffloads));
}

// Of a list, the options that give its names one by one: " --offload none --offload optimizer".
std::string runs_of_each(std::string_view list) {
  std::string options = " --offload ";
  for (const char c : list) options += c == ',' ? std::string(" --offload ") : std::string(1, c);
  return options;
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
      throw Error("'" + std::string(name(one)) + "' stands alone, not in a list as in '" + std::string(text) +
                      "'; for runs of each give" + runs_of_each(text),
                  ErrorKind::usage);
    }
    if (includes(set, one))
      throw Error("'" + std::string(name(one)) + "' stands twice in '" + std::string(text) + "'", ErrorKind::usage);
    set = set | one;
    if (is_last) return set;
  }
}

}  // namespace ridgepoint
