// A program whose runs exchange two tensors in a file (--offload-folder), and a disk without room.
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/stored_tensors.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint::testing {

// The inputs "a" and "b", of so many fp32 numbers.
inline Program swapping_program(const std::string& device, const std::string& folder, std::int64_t elements,
                                Compile level = Compile::off) {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {elements}}, Role::state);
  const Value b = input(graph, "b", {DType::fp32, {elements}}, Role::state);
  for (const Value value : {a, b}) {
    graph.node(graph.producer(value)).attributes.set(kOnHost, true);
    graph.node(graph.producer(value)).attributes.set(kOnDisk, true);
  }
  const std::vector<Value> fetched = copy_from_host(graph, {a, b});
  const std::vector<Value> stored = copy_to_host(graph, {fetched[1], fetched[0]});
  graph.add_update(a, stored[0]);
  graph.add_update(b, stored[1]);
  return {std::move(graph), open_device(device), {.compile = {.level = level, .offload_folder = folder}}};
}

inline HostTensor counting_from(float first, std::int64_t elements) {
  HostTensor tensor({DType::fp32, {elements}});
  for (float& element : tensor.as<float>()) element = first++;
  return tensor;
}

// RLIMIT_FSIZE stands for a full disk: no file may have more bytes.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    if (::getrlimit(RLIMIT_FSIZE, &before_) != 0) throw std::runtime_error("no limit");
    const rlimit small{bytes, before_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) throw std::runtime_error("no limit");
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace ridgepoint::testing
