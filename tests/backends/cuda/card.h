// Tests that need a GPU: their suites are called OnCard... (tests/CMakeLists.txt gives them the label `cuda`), and they
// skip with a reason if there is none. With FAKE_CARD_KERNELS the GPU is the one of fake/fake_card.cpp, whose
// hand-written kernels run on the processor.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "backends/cuda/device.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/host/emulated_card.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "backends/cuda/needs.h"
#include "backends/cuda/products/choice/cublaslt.h"

namespace ridgepoint::testing {

// Why CUDA cannot be tested here; empty if it can.
inline std::string missing_card() {
  return error_of([] {
    cuda::require_kernels();
    cuda::require_supported(cuda::card_facts(0));
    cuda::cublaslt();
    cuda::nvrtc();
  });
}

inline std::shared_ptr<Device> open_card() {
  if (std::getenv("FAKE_CARD_KERNELS") == nullptr) return make_cuda_device(0);
  return std::make_shared<EmulatedCard>();
}

class OnCard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = missing_card(); !why.empty()) GTEST_SKIP() << why;
    device_ = open_card();
  }

  std::shared_ptr<Device> device_;
};

// Of kernels for compute capability 9.0 alone.
class OnHopper : public OnCard {
 protected:
  void SetUp() override {
    OnCard::SetUp();
    if (IsSkipped()) return;
    context_ = &cuda::CudaContext::of_card(0);
    if (context_->card().capability.number() != 90) GTEST_SKIP() << context_->card().name << " is not a Hopper GPU";
  }

  cuda::CudaContext* context_ = nullptr;
};

}  // namespace ridgepoint::testing
