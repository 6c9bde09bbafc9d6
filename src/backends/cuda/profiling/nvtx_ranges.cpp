// make_nvtx_ranges(): the ranges of each launch are found once, when they are made.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "backends/cuda/profiling/nvtx.h"
#include "backends/cuda/profiling/observers.h"
#include "ir/scope.h"

namespace ridgepoint::cuda {
namespace {

// Null if no tool is attached. Made once and kept.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtx() == nullptr ? nullptr : nvtx()->domain_create("ridgepoint");
  return handle;
}

// The names of nested ranges, outermost first: phase, modules, op.
std::vector<std::string> path_of(const Graph& graph, const Node& node) {
  std::vector<std::string> path = {std::string(name(node.phase))};
  std::ranges::move(scope_levels(graph.scope_name(node)), std::back_inserter(path));
  path.emplace_back(name(node.op));
  return path;
}

class NvtxRanges : public LaunchObserver {
 public:
  NvtxRanges(const Graph& graph, std::span<const NodeId> launches) {
    std::vector<std::string> open;  // ranges that are open before a launch; the op's is not
    for (const NodeId id : launches) {
      const std::vector<std::string> path = path_of(graph, graph.node(id));
      const auto modules = static_cast<std::ptrdiff_t>(path.size()) - 1;
      const auto differ = std::mismatch(open.begin(), open.end(), path.begin(), path.begin() + modules);
      Change change;
      change.pops = static_cast<std::uint32_t>(open.end() - differ.first);
      change.first_push = static_cast<std::uint32_t>(pushes_.size());
      for (auto level = differ.second; level != path.end(); ++level) pushes_.push_back(string(*level));
      change.end_push = static_cast<std::uint32_t>(pushes_.size());
      changes_.push_back(change);
      open.assign(path.begin(), path.begin() + modules);
    }
  }

  void run_begins() override { depth_ = 0; }

  void before_launch(std::uint32_t launch) override {
    const Change& change = changes_[launch];
    for (std::uint32_t i = 0; i < change.pops; ++i) pop();
    for (std::uint32_t i = change.first_push; i < change.end_push; ++i) push(pushes_[i]);
  }
  void after_launch(std::uint32_t) override { pop(); }
  void run_ends() override {
    while (depth_ > 0) pop();
  }

 private:
  struct Change {
    std::uint32_t pops = 0;
    std::uint32_t first_push = 0, end_push = 0;
  };

  nvtxStringHandle_t string(const std::string& text) {
    nvtxStringHandle_t& handle = strings_[text];
    if (handle == nullptr) handle = nvtx()->register_string(domain(), text.c_str());
    return handle;
  }

  void push(nvtxStringHandle_t text) {
    nvtxEventAttributes_t attributes{};
    attributes.version = kNvtxVersion;
    attributes.size = sizeof attributes;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = text;
    nvtx()->push(domain(), &attributes);
    ++depth_;
  }
  void pop() {
    nvtx()->pop(domain());
    --depth_;
  }

  std::vector<Change> changes_;  // by launch
  std::vector<nvtxStringHandle_t> pushes_;
  std::map<std::string, nvtxStringHandle_t> strings_;
  std::uint32_t depth_ = 0;
};

}  // namespace

std::unique_ptr<LaunchObserver> make_nvtx_ranges(const Graph& graph, std::span<const NodeId> launches) {
  if (domain() == nullptr) return nullptr;
  return std::make_unique<NvtxRanges>(graph, launches);
}

}  // namespace ridgepoint::cuda
