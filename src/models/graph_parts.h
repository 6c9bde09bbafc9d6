// What the layers of a Transformer's graph share: its sizes, and layers of one weight. transformer_graph.cpp and
// attention_layers.cpp build the graph of it.
#pragma once

#include <cstdint>
#include <string>

#include "models/transformer.h"

namespace ridgepoint {

class GraphParts {
 protected:
  GraphParts(const TransformerConfig& config, std::int64_t batch, KeyCache cache)
      : config_(config),
        made_of_(config.architecture),
        cache_(cache),
        sequence_{cache == KeyCache::keep ? 1 : config.context, 'S'},
        tokens_{batch * sequence_.size, 'T'},
        batch_{batch, 'B'},
        model_{config.d_model, 'D'} {}

  Value parameter(const std::string& name, Shape shape) {
    return input(graph_, name, {DType::fp32, shape}, Role::parameter);
  }
  // The parameters `weight` and `bias` of the current scope.
  Value weight_here(Shape shape) { return parameter(graph_.scope() + ".weight", shape); }
  Value bias_here(Dim width) { return parameter(graph_.scope() + ".bias", {width}); }

  Value scaled(Value x, double factor) { return factor == 1 ? x : scale(graph_, x, factor); }

  // A vector of one number, where there is no parameter.
  Value filled(Dim width, double value) { return broadcast(graph_, constant(graph_, value, DType::fp32), {width}); }

  Value stream_norm(Value x, const char* name) { return norm(x, name, made_of_.norm_weights); }

  Value norm(Value x, const char* name, bool has_weight = true) {
    const ScopeGuard scope(graph_, name);
    const Dim width = graph_.type(x).shape.dim(-1);
    const Value weight = has_weight ? weight_here({width}) : filled(width, 1);
    if (made_of_.norm == Norm::layer_norm) {
      const Value bias = has_weight && made_of_.norm_biases ? bias_here(model_) : filled(width, 0);
      return layer_norm(graph_, x, weight, bias, made_of_.norm_epsilon)[0];
    }
    return rms_norm(graph_, x, made_of_.norm_adds_one ? shift(graph_, weight, 1.0) : weight, made_of_.norm_epsilon)
        .first;
  }

  // x [T,in] times the transpose of the weight [out,in] -> [T,out].
  Value linear(Value x, std::int64_t out, char label, const char* name, bool has_bias = false) {
    const ScopeGuard scope(graph_, name);
    const Value weight = weight_here({{out, label}, graph_.type(x).shape.dim(-1)});
    const Value product = matmul(graph_, x, transpose(graph_, weight, {1, 0}));
    return has_bias ? add(graph_, product, bias_here({out, label})) : product;
  }

  const TransformerConfig& config_;
  const Architecture& made_of_;
  const KeyCache cache_;
  Dim sequence_, tokens_, batch_, model_;
  Graph graph_;
};

}  // namespace ridgepoint
