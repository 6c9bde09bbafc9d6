#include "backends/cuda/driver/kernel_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "backends/cuda/libraries/nvrtc.h"
#include "core/files/disk_cache.h"
#include "core/first_call_clock.h"
#include "core/threads/processors.h"

namespace ridgepoint::cuda {
namespace {

// Threads that compile queued sources in order. Sources that are still queued at the end of the process are dropped.
class CompilerThreads {
 public:
  static CompilerThreads& instance() {
    nvrtc();  // constructed first, so that it outlives the threads
    static CompilerThreads threads;
    return threads;
  }

  std::shared_future<std::string> add(std::packaged_task<std::string()> task) {
    std::shared_future<std::string> result = task.get_future().share();
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    wake_.notify_one();
    return result;
  }

 private:
  CompilerThreads() {
    const int count = std::min(usable_processors(), kMostThreads);
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  }

  ~CompilerThreads() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return ends_ || !queue_.empty(); });
      if (ends_) return;
      std::packaged_task<std::string()> task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  static constexpr int kMostThreads = 32;

  std::mutex mutex_;
  bool ends_ = false;
  std::condition_variable wake_;
  std::deque<std::packaged_task<std::string()>> queue_;
  std::vector<std::thread> threads_;
};

DiskCache cache() { return DiskCache::in_user_folder("kernels"); }

std::vector<std::string> options() { return {"--minimal"}; }

// Everything on which machine code depends, except the driver: code that a driver refuses is compiled again.
std::string key_of(const std::string& source, int architecture) {
  return fmt::format("nvrtc {} for compute capability {}: {}\n{}", nvrtc().version(), architecture,
                     fmt::join(nvrtc().options(architecture, options()), " "), source);
}

struct Sources {
  // Never destroyed: a module cannot be unloaded once the driver has gone.
  static Sources& of_process() {
    static Sources& sources = *new Sources();
    return sources;
  }

  std::mutex mutex;
  std::map<std::pair<const CudaContext*, std::string>, std::weak_ptr<LoadedSource>> known;
  std::set<std::shared_ptr<LoadedSource>> kept;
};

}  // namespace

std::string compiled_image(const std::string& source, const std::string& name, int architecture) {
  if (std::optional<std::string> known = cache().load(key_of(source, architecture))) return std::move(*known);
  return recompiled_image(source, name, architecture);
}

std::string recompiled_image(const std::string& source, const std::string& name, int architecture) {
  std::string image = nvrtc().compile(source, name, architecture, options()).bytes;
  cache().store(key_of(source, architecture), image);
  return image;
}

std::shared_future<std::string> compile_in_background(std::string source, std::string name, int architecture,
                                                      std::shared_ptr<std::atomic<Compilation>> state) {
  return CompilerThreads::instance().add(std::packaged_task<std::string()>(
      [source = std::move(source), name = std::move(name), architecture, state = std::move(state)] {
        Compilation queued = Compilation::queued;
        if (state != nullptr && !state->compare_exchange_strong(queued, Compilation::begun)) return std::string();
        return compiled_image(source, name, architecture);
      }));
}

std::shared_ptr<LoadedSource> LoadedSource::open(CudaContext& context, const std::string& source,
                                                 const std::string& name) {
  Sources& sources = Sources::of_process();
  const std::lock_guard lock(sources.mutex);
  std::weak_ptr<LoadedSource>& entry = sources.known[{&context, source}];
  std::shared_ptr<LoadedSource> loaded = entry.lock();
  if (loaded != nullptr) return loaded;
  loaded = std::make_shared<LoadedSource>(context, source, name);
  entry = loaded;
  std::erase_if(sources.known, [](const auto& item) { return item.second.expired(); });
  return loaded;
}

void LoadedSource::keep_loaded() {
  Sources& sources = Sources::of_process();
  const std::lock_guard lock(sources.mutex);
  for (const auto& [source, entry] : sources.known) {
    const std::shared_ptr<LoadedSource> loaded = entry.lock();
    if (loaded == nullptr) continue;
    const std::lock_guard lock_source(loaded->mutex_);
    if (loaded->module_ != nullptr) sources.kept.insert(loaded);
  }
}

LoadedSource::LoadedSource(CudaContext& context, const std::string& source, const std::string& name)
    : context_(context),
      source_(source),
      name_(name),
      image_(compile_in_background(source, name, context.card().architecture, compilation_)) {}

LoadedSource::~LoadedSource() {
  Compilation queued = Compilation::queued;
  if (!compilation_->compare_exchange_strong(queued, Compilation::given_up)) image_.wait();
}

CUfunction LoadedSource::function(const std::string& entry) {
  const std::lock_guard lock(mutex_);
  if (module_ == nullptr) module_ = load();
  return module_->function(entry.c_str());
}

std::unique_ptr<Module> LoadedSource::load() const {
  const InStage in_stage(FirstCallStage::kernels);
  if (std::unique_ptr<Module> module = Module::load_unless_refused(context_, image_.get().c_str(), name_))
    return module;
  const std::string image = recompiled_image(source_, name_, context_.card().architecture);
  return std::make_unique<Module>(context_, image.c_str(), name_);
}

}  // namespace ridgepoint::cuda
