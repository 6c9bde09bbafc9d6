// Synthetic records with every field set.
#pragma once

#include "ridgepoint/record/record.h"

namespace ridgepoint {

inline Record sample_record(Mode mode = Mode::step) {
  Record record;
  record.timestamp = "2025-01-31T12:00:00Z";
  record.mode = mode;
  record.attention = AttentionVariant::composite;
  record.batch = 4;
  record.context = 256;
  record.model = {"tiny", 2986624, 2, 128, 384, 4, 10000, 4};
  record.device = {"cpu", "Test Processor", 16LL << 30, std::nullopt, std::nullopt};
  record.warmup = 2;
  record.steps = 4;
  record.seed = 7;
  record.threads = 2;
  Record::TrainingStep& step = record.training_step.emplace();
  step.time_ms = describe({10, 12, 11, 13.5});
  step.device_time_ms = describe({9.5, 11.5, 10.5, 13});
  step.warmup_ms = {100.25, 20};
  step.tokens_per_second = 88086.02;
  step.flops_per_step = 18'000'000'000;
  step.achieved_flops_per_second = 1.548387e12;
  step.ceiling_flops_per_second = 2e12;
  step.ceiling_share = 0.7741935;
  record.memory_bytes = {100 << 20, 128 << 20, 99 << 20, 98 << 20, 60 << 20,     100 << 20,   60 << 20,
                         700 << 20, 500 << 20, 72 << 20, 90 << 20, std::nullopt, std::nullopt};
  record.build = {"0.1.0", "gcc 12.2.0, Release", "0123456789ab"};
  return record;
}

// A record of command attention: forward 2 ms and backward 5 ms at 256 tokens, four times that for each doubling.
inline Record attention_record(AttentionVariant variant = AttentionVariant::flash, std::int64_t sequence = 256) {
  Record record = sample_record(Mode::forward_backward);
  record.experiment = Experiment::attention;
  record.training_step.reset();
  Record::AttentionCall& call = record.attention_call.emplace();
  record.attention = variant;
  record.batch = 8;
  record.context = sequence;
  call.keys = sequence;
  call.causal = false;
  record.model = {"", 0, 0, 64, 0, 1, 0, 1};
  const double growth = static_cast<double>(sequence * sequence) / (256 * 256);
  call.forward_ms = describe({2 * growth, 2 * growth, 3 * growth});
  call.backward_ms = describe({5 * growth});
  call.forward_flops_per_second = 1.2e12;
  call.backward_flops_per_second = 3e12;
  return record;
}

inline Record out_of_memory_record() {
  Record record = sample_record();
  record.status = RunStatus::oom;
  record.error = {"out of memory in backward at matmul", 512 << 20, 512 << 20, 100 << 20, 0};
  Record::TrainingStep& step = *record.training_step;
  step.time_ms = step.device_time_ms = describe({});
  step.warmup_ms.clear();
  step.tokens_per_second = step.achieved_flops_per_second = step.ceiling_share = std::nullopt;
  record.memory_bytes = {};
  record.memory_bytes.planned_peak = 1LL << 30;
  return record;
}

}  // namespace ridgepoint
