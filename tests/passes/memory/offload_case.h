// Runs with and without tensors on the host, in the tests of the passes that keep them there.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "plan/plan.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/rank_threads.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint::testing {

struct OffloadCase {
  std::string name;
  CompileOptions options;
  Offload offload;
  TransformerConfig model;
  std::string device = "cpu";
  AllocatorKind allocator = AllocatorKind::caching;
};

inline ProgramPlan plan_with(const OffloadCase& of, Offload offload) {
  CompileOptions options = of.options;
  options.offload = offload;
  options.verify = true;
  return {build_transformer(of.model, 2), open_device(of.device), {.compile = options, .allocator = of.allocator}};
}

inline std::vector<std::size_t> launches_of(const ProgramPlan& plan, Op op) {
  std::vector<std::size_t> launches;
  for (std::size_t i = 0; i < plan.execution().steps.size(); ++i) {
    if (plan.graph().node(plan.execution().steps[i].node).op == op) launches.push_back(i);
  }
  return launches;
}

// One of `expect_same_bits_within_less_memory` for one rank, whose number is in the options.
inline void expect_same_bits_on_rank(const OffloadCase& of, const std::shared_ptr<Communicator>& communicator) {
  const Transformer workload(of.model, 2);
  const ProgramPlan plain_plan = plan_with(of, Offload::none);
  const ProgramPlan offloaded_plan = plan_with(of, of.offload);
  ASSERT_FALSE(launches_of(offloaded_plan, Op::copy_from_host).empty());
  Program plain(plain_plan, nullptr, {.communicator = communicator});
  Program offloaded(offloaded_plan, nullptr, {.communicator = communicator});
  for (Program* program : {&plain, &offloaded}) {
    initialise(*program, workload, 3);
    // Ranks have the same parameters, and data of their own.
    if (of.options.parallel.rank % 2 == 1) program->write_input("inputs", program->read_input("targets"));
  }
  for (int run = 0; run < 2; ++run) {
    plain.run();
    offloaded.run();
    for (const Output& output : plain.graph().outputs()) {
      EXPECT_EQ(relative_error(offloaded.read_output(output.name), plain.read_output(output.name)), 0)
          << output.name << " of run " << run;
    }
  }
  std::map<std::string, std::vector<std::byte>> states;
  for (const StatePart& part : plain.state_parts()) {
    states[part.name].resize(part.bytes());
    plain.read_part(part, states[part.name]);
  }
  for (const StatePart& part : offloaded.state_parts()) {
    std::vector<std::byte> bytes(part.bytes());
    offloaded.read_part(part, bytes);
    EXPECT_EQ(bytes, states[part.name]) << part.name;
  }
  EXPECT_EQ(offloaded.host_memory_bytes(), offloaded_plan.execution().host.bytes);
  EXPECT_LT(offloaded.memory_use().peak_allocated_bytes, plain.memory_use().peak_allocated_bytes);
}

// Two runs give the same outputs and states, the offloaded ones within less of the device's memory. Ranks are threads.
inline void expect_same_bits_within_less_memory(const OffloadCase& of) {
  const std::int64_t ranks = of.options.parallel.data;
  if (ranks == 1) return expect_same_bits_on_rank(of, nullptr);
  RankThreads(static_cast<std::size_t>(ranks), CollectiveRuns::in_wait)
      .run([&](std::size_t rank, const std::shared_ptr<Communicator>& communicator) {
        OffloadCase own = of;
        own.options.parallel.rank = static_cast<std::int64_t>(rank);
        expect_same_bits_on_rank(own, communicator);
      });
}

}  // namespace ridgepoint::testing
