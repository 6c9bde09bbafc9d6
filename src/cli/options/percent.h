// Shares on the command line: "3%", "0.5%".
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint::cli {

// The share of an option's value, 0.03 for "3%". Throws Error (usage), which begins with the flag, without the sign
// and for a share outside least..most.
double parse_share(std::string_view flag, const std::string& text, double least, double most);

}  // namespace ridgepoint::cli
