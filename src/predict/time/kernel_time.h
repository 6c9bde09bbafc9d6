// The time of a kernel on a GPU that is known by its datasheet, from the rates of its row in the table of variants
// (runtime/device/kernel_rate.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "predict/cards/datasheet.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// The seconds of one launch. Capturing launches shortens the fixed part.
struct KernelTime {
  double fixed = 0;
  double work = 0;  // max(operations / rate, bytes / bandwidth)
};

// Whether the datasheet has the rates that kernel_time() needs: of bf16, tf32 and fp32.
bool has_rates(const Datasheet& card);

// The time of a launch of the node. Empty without a rate. Attention has 4 batch queries keys width operations, half as
// many if causal, with a window only those of the pairs that it leaves, and 2.5 times as many in backward; the padding
// of tiles counts too. No call is faster than its bytes, nor than its longest block on one multiprocessor, unless
// multiprocessors share blocks. Heads that share keys save bytes, but no operations.
std::optional<KernelTime> kernel_time(const Graph& graph, const Node& node, const KernelRate& rate,
                                      const Datasheet& card);

// The seconds of a transfer of this size between the host and the card, if no other runs in its direction. All ranks of
// a host copy at the same time.
double transfer_seconds(const Datasheet& card, double bytes, bool is_host_shared);

// The timeline of one rank: launches in order, beside collectives, which run one after another.

// The host's seconds for a launch that is not captured, and what is left of a launch's fixed time if it is.
inline constexpr double kHostSecondsPerLaunch = 3.9e-6;
inline constexpr double kCapturedShare = 0.62;

// What moves the bytes of a collective. A launch and a collective at the same time both take longer: NCCL's kernels
// occupy multiprocessors and memory bandwidth, and some launches need all multiprocessors before they begin. Copy
// engines share only the bandwidth.
enum class Sender : std::uint8_t { kernels, copy_engines };

// The time that has passed, from launch to launch.
class LaunchTimeline {
 public:
  // Captured launches wait for no host; others begin when the host has issued them.
  explicit LaunchTimeline(bool captured) : captured_(captured) {}

  // Returns the seconds at which the launch begins.
  double launch(const KernelTime& time);
  // Begins a collective as soon as the earlier launches and collectives have ended. `seconds` is its time alone.
  // Returns its number, counted from 0.
  std::size_t begin_collective(double seconds, Sender sender = Sender::kernels);
  // Later launches wait until the collectives up to this number, or all, have ended.
  void wait_for(std::size_t collective);
  void wait_for_all();

  // Begins a transfer beside launches, as soon as the earlier launches and the earlier transfers in its direction have
  // ended. Returns its number, counted from 0.
  enum class Direction : std::uint8_t { from_host, to_host };
  std::size_t begin_transfer(Direction direction, double seconds);
  void wait_for_transfer(std::size_t transfer) { idle(std::max(transfers_[transfer] - now_, 0.0)); }
  void wait_for_all_transfers();

  double seconds() const { return now_; }  // when the last launch or the last wait has ended
  // While collectives ran. Some may still do so.
  double communication_seconds() const { return communication_; }

 private:
  void idle(double seconds);
  void work(double seconds);

  bool captured_;
  double host_ = 0;
  double now_ = 0;
  double communication_ = 0;
  struct Collective {
    double left = 0;  // seconds alone
    Sender sender = Sender::kernels;
  };
  std::vector<Collective> collectives_;
  std::size_t ended_ = 0;               // collectives
  std::array<double, 2> directions_{};  // when the last transfer in each ends
  std::vector<double> transfers_;       // when each ends
};

}  // namespace ridgepoint
