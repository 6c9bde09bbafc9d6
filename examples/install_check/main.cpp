// Least squares with the installed library: builds a graph, differentiates it, runs it, and compares with values
// computed by hand.
// prediction = x w,  loss = mean((prediction - y)^2),  d loss / d w = 2/3 x^T (prediction - y)
// Prints loss and gradient for each device; exits with 1 if they are not the expected numbers.
#include <ridgepoint/autodiff/autodiff.h>
#include <ridgepoint/core/error.h>
#include <ridgepoint/ops/ops.h>
#include <ridgepoint/runtime/program.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>

using namespace ridgepoint;

namespace {

TensorType fp32(Shape shape) { return {DType::fp32, shape}; }

HostTensor filled(Shape shape, std::initializer_list<float> values) {
  HostTensor tensor(fp32(shape));
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

Graph least_squares() {
  Graph graph;
  const Value x = input(graph, "x", fp32({3, 2}), Role::data);
  const Value y = input(graph, "y", fp32({3, 1}), Role::data);
  const Value w = input(graph, "w", fp32({2, 1}), Role::parameter);
  const Value error = sub(graph, matmul(graph, x, w), y);
  const Value loss = scale(graph, reduce_sum(graph, mul(graph, error, error), {0, 1}), 1.0 / 3.0);
  const std::array parameters = {w};
  graph.add_output("loss", loss);
  graph.add_output("gradient", differentiate(graph, loss, parameters).front());
  return graph;
}

bool check(const char* device) {
  Program program(least_squares(), open_device(device));
  program.write_input("x", filled({3, 2}, {1, 2, 3, 4, 5, 6}));
  program.write_input("y", filled({3, 1}, {1, 0, -1}));
  program.write_input("w", filled({2, 1}, {0.5F, -1}));
  program.run();  // errors -2.5 -2.5 -2.5: loss 6.25, gradient 2/3 * -2.5 * {9, 12}
  const HostTensor loss_tensor = program.read_output("loss");
  const HostTensor gradient_tensor = program.read_output("gradient");
  const float loss = loss_tensor.as<float>()[0];
  const auto gradient = gradient_tensor.as<float>();
  std::printf("%-10s loss %.4f  gradient %.4f %.4f\n", device, static_cast<double>(loss),
              static_cast<double>(gradient[0]), static_cast<double>(gradient[1]));
  const auto near = [](float a, float b) { return std::abs(a - b) <= 1e-5F * std::abs(b); };
  return near(loss, 6.25F) && near(gradient[0], -15) && near(gradient[1], -20);
}

}  // namespace

int main() {
  try {
    const bool reference_agrees = check("reference");
    const bool cpu_agrees = check("cpu");
    return reference_agrees && cpu_agrees ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
