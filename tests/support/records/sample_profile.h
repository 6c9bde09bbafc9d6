// Synthetic profiles with simple times.
#pragma once

#include <string>
#include <utility>

#include "inspect/profile/profile.h"
#include "support/records/sample_records.h"

namespace ridgepoint {

struct SampleKernel {
  std::string name;
  std::string op;
  std::string scope;
  KernelClass kernel_class = KernelClass::elementwise;
  ProfilePhase phase = ProfilePhase::forward;
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t call_start_ns = 0;
  std::int64_t flops = 0;
  std::int64_t bytes = 0;
};

inline void add_kernel(Profile& profile, const SampleKernel& sample, std::uint32_t step = 0) {
  KernelRecord& kernel = profile.kernels.emplace_back();
  kernel.name = sample.name;
  kernel.op = sample.op;
  kernel.scope = sample.scope;
  kernel.kernel_class = sample.kernel_class;
  kernel.phase = sample.phase;
  kernel.node = static_cast<std::uint32_t>(profile.kernels.size());
  kernel.step = step;
  kernel.start_ns = sample.start_ns;
  kernel.duration_ns = sample.duration_ns;
  kernel.call_start_ns = sample.call_start_ns;
  kernel.call_duration_ns = 10;
  kernel.flops = sample.flops;
  kernel.bytes = sample.bytes;
  kernel.grid = {4, 2, 1};
  kernel.block = {128, 1, 1};
  kernel.registers = 40;
  kernel.shared_bytes = 2048;
  kernel.stream = 7;
}

// One step of 1000 ns. Two layers' attention, a softmax, a loss and an update; gaps of 100 ns before the first kernel
// (host late), 20 before the softmax (dependency) and 80 at the end.
inline Profile sample_profile() {
  Profile profile;
  profile.run = sample_record();
  profile.run.experiment = Experiment::profile;
  profile.steps = {{0, 1000}};
  profile.matmul_flops_per_second = 1e12;  // 1000 operations a ns
  profile.copy_bytes_per_second = 1e11;    // 100 bytes a ns
  profile.recording_ns = 50;
  using enum KernelClass;
  using P = ProfilePhase;
  add_kernel(profile, {"gemm", "matmul", "layers.0.attn.scores", matmul, P::forward, 100, 200, 50, 100'000, 4'000});
  add_kernel(profile, {"gemm", "matmul", "layers.1.attn.values", matmul, P::forward, 300, 100, 60, 60'000, 4'000});
  add_kernel(profile, {"exp", "exp", "layers.0.attn.softmax", softmax, P::forward, 420, 80, 70, 1'000, 4'000});
  add_kernel(profile, {"nll", "cross_entropy", "loss", loss, P::loss, 500, 100, 80, 500, 2'000});
  add_kernel(profile, {"gemm", "matmul", "layers.0.attn.scores", matmul, P::backward, 600, 200, 90, 200'000, 8'000});
  add_kernel(profile, {"update", "adamw", "optimizer", optimizer, P::optimizer, 800, 120, 95, 3'000, 28'000});
  return profile;
}

}  // namespace ridgepoint
