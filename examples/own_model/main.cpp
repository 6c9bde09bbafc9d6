// A model of your own: build its forward graph, time a training step, print where the time goes.
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build && build/own_model
#include <ridgepoint/inspect/measure.h>
#include <ridgepoint/ops/ops.h>
#include <ridgepoint/report/views.h>

#include <cstdio>

using namespace ridgepoint;

// Two linear layers with a ReLU between them, and cross-entropy.
class Classifier : public Workload {
 public:
  WorkloadDescription describe() const override { return {.model = {.name = "classifier"}, .batch = kBatch}; }

  Graph build(const StopPoint&) const override {
    Graph graph;
    const Value x = input(graph, "x", {DType::fp32, {kBatch, 784}}, Role::data);
    const Value targets = input(graph, "targets", {DType::int64, {kBatch}}, Role::data);
    const Value hidden = relu(graph, linear(graph, x, 1024, "fc1"));
    const Value logits = linear(graph, hidden, 10, "fc2");
    graph.set_phase(Phase::loss);
    const Value losses = cross_entropy(graph, logits, targets).first;
    graph.add_output("loss", scale(graph, reduce_sum(graph, losses, {0}), 1.0 / kBatch), OutputRole::loss);
    return graph;
  }

 private:
  static constexpr std::int64_t kBatch = 64;

  static Value linear(Graph& graph, Value x, std::int64_t out, const char* name) {
    const ScopeGuard scope(graph, name);
    const Value weight =
        input(graph, std::string(name) + ".weight", {DType::fp32, {graph.type(x).shape[-1], out}}, Role::parameter);
    return matmul(graph, x, weight);
  }
};

int main() {
  RunConfig config{.device = default_device_name(), .workload = std::make_shared<Classifier>()};
  std::printf("%s\n%s", to_text(benchmark(config)).c_str(), to_text(profile(config)).c_str());
}
