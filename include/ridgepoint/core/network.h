// What connects the ranks of a run, for predictions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridgepoint {

// A kind of link. `bytes_per_second` is the published rate of one rank's links in one direction.
struct Link {
  double bytes_per_second = 0;
  double latency_seconds = 0;  // of one message between two ranks, its launch included

  friend bool operator==(const Link&, const Link&) = default;
};

struct Network {
  Link inside;                        // between the ranks of a machine
  std::int64_t ranks_on_machine = 8;  // at most
  std::optional<Link> between = {};   // between machines; empty: there is one machine

  friend bool operator==(const Network&, const Network&) = default;
};

// "8x NVLink 450 GB/s, 400 Gb/s InfiniBand 5us": links within a machine of so many ranks, and between machines, each
// with its rate for one rank in one direction (GB/s, Gb/s, TB/s, MB/s), perhaps a latency (us) [3us inside, 10us
// between], and words that say what it is. Throws Error (usage).
Network network_from_text(std::string_view text);

}  // namespace ridgepoint
