#include "backends/cuda/profiling/nvtx.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "backends/cuda/profiling/observers.h"
#include "ir/scope.h"

namespace ridgepoint::cuda {
namespace {

// The functions of every module of NVTX, as a tool expects them, though only four are called. By NvtxCallbackModule:
// the callback ids of a module lie below its size.
constexpr unsigned kSizes[] = {0, 16, 9, 15, 7, 16, 7};
struct ModuleTable {
  NvtxFunctionPointer functions[16];
  NvtxFunctionPointer* slots[17];  // null at both ends
};
ModuleTable module_tables[std::size(kSizes)];

int module_functions(NvtxCallbackModule module, NvtxFunctionTable* table, unsigned* size) {
  const auto index = static_cast<std::size_t>(module);
  if (index >= std::size(kSizes) || kSizes[index] == 0) return 0;
  ModuleTable& found = module_tables[index];
  for (unsigned id = 1; id < kSizes[index]; ++id) found.slots[id] = &found.functions[id];
  if (table != nullptr) *table = found.slots;
  if (size != nullptr) *size = kSizes[index];
  return 1;
}

void take_version(std::uint32_t) {}

const void* export_table(std::uint32_t which) {
  static constexpr NvtxExportTableCallbacks kCallbacks = {sizeof(NvtxExportTableCallbacks), module_functions};
  static constexpr NvtxExportTableVersionInfo kVersion = {sizeof(NvtxExportTableVersionInfo), kNvtxVersion, 0,
                                                          take_version};
  if (which == NVTX_ETID_CALLBACKS) return &kCallbacks;
  return which == NVTX_ETID_VERSIONINFO ? &kVersion : nullptr;
}

bool attach_tool() {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_LAZY);
  if (library == nullptr) return false;
  const auto initialise =
      reinterpret_cast<NvtxInitializeInjectionNvtxFunc_t>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialise != nullptr && initialise(export_table) != 0) return true;
  dlclose(library);
  return false;
}

template <typename Function>
bool take(Function& function, NvtxCallbackIdCore2 id) {
  function = reinterpret_cast<Function>(module_tables[NVTX_CB_MODULE_CORE2].functions[id]);
  return function != nullptr;
}

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

// The ranges of each launch are found once, when the observer is made.
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

const Nvtx* nvtx() {
  static Nvtx table;
  static const bool is_attached = attach_tool() && take(table.domain_create, NVTX_CBID_CORE2_DomainCreateA) &&
                                  take(table.register_string, NVTX_CBID_CORE2_DomainRegisterStringA) &&
                                  take(table.push, NVTX_CBID_CORE2_DomainRangePushEx) &&
                                  take(table.pop, NVTX_CBID_CORE2_DomainRangePop);
  return is_attached ? &table : nullptr;
}

std::unique_ptr<LaunchObserver> make_nvtx_ranges(const Graph& graph, std::span<const NodeId> launches) {
  if (domain() == nullptr) return nullptr;
  return std::make_unique<NvtxRanges>(graph, launches);
}

}  // namespace ridgepoint::cuda
