// Opens a device by its name: cpu, cuda, cuda:1, reference or null.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "backends/cpu/device.h"
#include "backends/cuda/card_choices.h"
#include "backends/cuda/device.h"
#include "backends/cuda/driver/context.h"
#include "backends/null/null_device.h"
#include "backends/reference/reference_device.h"
#include "core/text/nearest.h"
#include "core/text/throw_error.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

struct Backend {
  std::string_view name;
  // `ordinal` is the number after the colon, as in "cuda:1"; 0 without one.
  std::shared_ptr<Device> (*open)(int ordinal, const DeviceOptions&);
  bool numbered = false;
};

// Its target is a described GPU, or this machine's CPU. Its memory is unlimited unless `options` limits it.
std::shared_ptr<Device> open_null(int /*ordinal*/, const DeviceOptions& options) {
  std::shared_ptr<KernelChoices> target;
  if (!options.card) {
    target = make_cpu_device(options);
  } else if (can_describe_card(options.card->compute_capability)) {
    target = make_described_card(*options.card);
  } else {
    throw_error(ErrorKind::unsupported, "there are no kernels for {}: they need compute capability {}.{} or newer",
                options.card->name, cuda::kLeastCapability / 10, cuda::kLeastCapability % 10);
  }
  return make_null_device(std::move(target), options.memory_limit_bytes);
}

constexpr std::array kBackends = {
    Backend{"cpu", [](int, const DeviceOptions& options) { return make_cpu_device(options); }},
    Backend{"cuda", make_cuda_device, true},
    Backend{"reference", [](int, const DeviceOptions& options) { return make_reference_device(options); }},
    Backend{"null", open_null}};

// "cuda:1" -> 1.
int read_ordinal(std::string_view name, std::string_view number) {
  int ordinal = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), ordinal);
  if (number.empty() || read.ec != std::errc() || read.ptr != number.data() + number.size() || ordinal < 0)
    throw_error(ErrorKind::usage,
                "'{}' is not the name of a GPU; write cuda for the first one and cuda:1 for the second", name);
  return ordinal;
}

}  // namespace

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  const std::size_t colon = name.find(':');
  const std::string_view kind = name.substr(0, colon);
  std::array<std::string_view, kBackends.size()> names;
  for (std::size_t i = 0; i < kBackends.size(); ++i) {
    const Backend& backend = kBackends[i];
    names[i] = backend.name;
    if (backend.name != kind) continue;
    if (colon == std::string_view::npos) return backend.open(0, options);
    if (backend.numbered) return backend.open(read_ordinal(name, name.substr(colon + 1)), options);
    throw_error(ErrorKind::usage, "there is only one device '{}', so its name takes no number; '{}' was asked for",
                kind, name);
  }
  throw_error(ErrorKind::usage, "unknown device '{}'{}", name, hint(kind, names));
}

bool can_describe_card(int compute_capability) { return compute_capability >= cuda::kLeastCapability; }

std::string default_device_name() { return has_usable_cuda_card() ? "cuda" : "cpu"; }

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (int card = 0; card < cuda_card_count(); ++card) names.push_back(fmt::format("cuda:{}", card));
  names.insert(names.end(), {"cpu", "reference", "null"});
  return names;
}

}  // namespace ridgepoint
