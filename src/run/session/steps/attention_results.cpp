#include "run/session/steps/attention_results.h"

#include <memory>
#include <utility>

#include "passes/precision/autocast.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

// A call of attention that also gives its log-sum-exp.
class CheckedCall final : public Workload {
 public:
  CheckedCall(AttentionProblem problem, bool is_wide) : problem_(std::move(problem)), is_wide_(is_wide) {}

  WorkloadDescription describe() const override { return AttentionCall(problem_).describe(); }
  std::string_view unit() const override { return "calls"; }
  Graph build(const StopPoint&) const override {
    Graph graph = build_attention_problem(problem_);
    const auto input = [&](const char* name) { return *graph.find_input(name); };
    const Value lse = build_log_sum_exp(graph, problem_, input("q"), input("k"), input("v"));
    graph.add_output("lse", lse, OutputRole::activation);
    if (is_wide_) widen_to_fp64(graph);
    return graph;
  }

 private:
  AttentionProblem problem_;
  bool is_wide_;
};

void write(Program& program, const std::string& name, const HostTensor& tensor) {
  const Graph& graph = program.graph();
  HostTensor converted(graph.type(*graph.find_input(name)));
  convert(tensor, converted);
  program.write_input(name, converted);
}

}  // namespace

std::optional<std::map<std::string, HostTensor>> run_attention(RunConfig config, const AttentionProblem& problem,
                                                               const std::map<std::string, HostTensor>& inputs,
                                                               const StepWatcher& watch) {
  const bool is_wide = config.device == "reference";
  const bool has_backward = inputs.contains("do");
  config.workload = std::make_shared<CheckedCall>(problem, is_wide);
  config.compile.mode = has_backward ? Mode::forward_backward : Mode::forward;
  std::map<std::string, HostTensor> results;
  const auto run = [&] {
    Record record;  // not read: the result is tensors
    Session session(config, watch, record);
    Program program = session.ready_program();
    for (const char* name : {"q", "k", "v"}) write(program, name, inputs.at(name));
    if (has_backward) write(program, "grad.o", inputs.at("do"));
    session.enter(Session::Stage::timing, 0, 1);
    program.run();
    program.synchronize();
    const auto take = [&](const std::string& name, const std::string& output) {
      results[name] = convert(program.read_output(output), is_wide ? DType::fp64 : DType::fp32);
    };
    take("o", "o");
    take("lse", "lse");
    for (const char* name : {"q", "k", "v"}) {
      if (has_backward) take(std::string("d") + name, std::string("grad.") + name);
    }
  };
  if (is_stopped(run)) return std::nullopt;
  return results;
}

}  // namespace ridgepoint
