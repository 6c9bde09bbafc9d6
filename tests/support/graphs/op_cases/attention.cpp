#include "support/graphs/op_cases/cases.h"

#include "ops/attention_form.h"

namespace ridgepoint::testing {

void add_rope(OpCases& cases) {
  for (const bool inverse : {false, true}) {
    const std::string suffix = inverse ? "_inverse" : "";
    cases
        .add_case(Op::rope, "by_sequence" + suffix,
                  graph_of({Shape{2, 5, 3, 8}, Shape{5, 4}, Shape{5, 4}},
                           [inverse](Graph& g, const Values& x) {
                             return Values{rope(g, x[0], detach(g, x[1]), detach(g, x[2]), 1, inverse)};
                           }))
        .differentiable = false;
  }
  cases.add_case(Op::rope, "of_transpose",
                 graph_of({Shape{2, 3, 5, 8}, Shape{5, 4}, Shape{5, 4}}, [](Graph& g, const Values& x) {
                   return Values{rope(g, transpose(g, x[0], {0, 2, 1, 3}), x[1], x[2], 1)};
                 }));
  cases.add_case(Op::rope, "short_pairs",
                 graph_of({Shape{7, 2}, Shape{7, 1}, Shape{7, 1}},
                          [](Graph& g, const Values& x) { return Values{rope(g, x[0], x[1], x[2], 0, true)}; }));
}

void add_attention(OpCases& cases) {
  for (const bool causal : {false, true}) {
    const std::string suffix = causal ? "_causal" : "";
    cases.add_case(
        Op::attention, "heads" + suffix,
        graph_of({Shape{2, 3, 9, 8}, Shape{2, 3, 9, 8}, Shape{2, 3, 9, 8}}, [causal](Graph& g, const Values& x) {
          return Values{attention(g, x[0], x[1], x[2], {0.35, causal}).first};
        }));
    cases.add_case(
        Op::attention_backward, "heads" + suffix,
        graph_of({Shape{2, 9, 8}, Shape{2, 9, 8}, Shape{2, 9, 8}, Shape{2, 9, 8}}, [causal](Graph& g, const Values& x) {
          const auto [o, lse] = attention(g, x[1], x[2], x[3], {0.35, causal});
          const Node& made = g.node(make_node(g, Op::attention_backward, {x[0], x[1], x[2], x[3], o, lse},
                                              {{"causal", causal}, {"scale", 0.35}}));
          return Values{made.outputs[0], made.outputs[1], made.outputs[2]};
        }));
  }
  for (const std::int64_t keys : {6, 2}) {
    cases.add_case(
        Op::attention, keys == 6 ? "sinks" : "sinks_of_groups",
        graph_of(
            {Shape{2, 6, 9, 8}, Shape{2, keys, 9, 8}, Shape{2, keys, 9, 8}, Shape{6}}, [](Graph& g, const Values& x) {
              const AttentionForm form = {.scale = 0.35, .causal = true, .window = 4};
              const Node& made = g.node(make_node(g, Op::attention, {x[0], x[1], x[2], x[3]}, attributes_of(form)));
              return Values{made.outputs[0]};
            }));
  }
  struct Form {
    std::string name;
    Shape queries, keys;
    AttentionForm form;
  };
  const Form forms[] = {
      {"grouped", Shape{2, 6, 9, 8}, Shape{2, 2, 9, 8}, {0.35, true}},
      {"one_key_head", Shape{4, 9, 8}, Shape{1, 21, 8}, {0.35}},
      {"window", Shape{2, 2, 21, 8}, Shape{2, 2, 21, 8}, {.scale = 0.35, .causal = true, .window = 4}},
      {"soft_cap", Shape{3, 9, 8}, Shape{3, 9, 8}, {.scale = 0.5, .soft_cap = 0.8}},
      {"all", Shape{4, 13, 8}, Shape{2, 13, 8}, {.scale = 0.5, .causal = true, .window = 6, .soft_cap = 0.8}}};
  for (const auto& [form_name, queries, keys, form] : forms) {
    cases.add_case(Op::attention, form_name, graph_of({queries, keys, keys}, [form = form](Graph& g, const Values& x) {
                     return Values{attention(g, x[0], x[1], x[2], form).first};
                   }));
    cases.add_case(
        Op::attention_backward, form_name,
        graph_of({queries, queries, keys, keys}, [form = form](Graph& g, const Values& x) {
          const auto [o, lse] = attention(g, x[1], x[2], x[3], form);
          return g.node(make_node(g, Op::attention_backward, {x[0], x[1], x[2], x[3], o, lse}, attributes_of(form)))
              .outputs;
        }));
  }
  for (const std::int64_t pairs : {4, 2}) {
    cases.add_case(Op::attention_backward, pairs == 4 ? "rotary" : "partly_rotary",
                   graph_of({Shape{2, 4, 9, 8}, Shape{2, 4, 9, 8}, Shape{2, 2, 9, 8}, Shape{2, 2, 9, 8},
                             Shape{9, pairs}, Shape{9, pairs}},
                            [](Graph& g, const Values& x) {
                              const AttentionForm form{0.35, true};
                              const auto [o, lse] = attention(g, x[1], x[2], x[3], form);
                              return g
                                  .node(make_node(g, Op::attention_backward,
                                                  {x[0], x[1], x[2], x[3], o, lse, x[4], x[5]}, attributes_of(form)))
                                  .outputs;
                            }));
  }
  cases.add_case(Op::attention, "more_keys_and_both_results",
                 graph_of({Shape{5, 16}, Shape{70, 16}, Shape{70, 16}}, [](Graph& g, const Values& x) {
                   const auto [o, lse] = attention(g, x[0], x[1], x[2], {0.25});
                   return Values{o, lse};
                 }));
}

// The numbers of tokens are not those of whole chunks. Keys, decays and factors are small enough for states to be
// bounded.
void add_linear_attention(OpCases& cases) {
  const auto operands = [](Graph& g, const Values& x) {
    return Values{x[0], scale(g, x[1], 0.25), x[2], shift(g, scale(g, x[3], 0.25), -0.5), x[4]};
  };
  struct Form {
    std::string name;
    Shape keys, values;
  };
  const Form forms[] = {{"heads", Shape{2, 2, 9, 8}, Shape{2, 2, 9, 6}},
                        {"shared_keys", Shape{2, 70, 8}, Shape{6, 70, 40}},
                        {"one_head", Shape{131, 3}, Shape{131, 5}},
                        {"one_token", Shape{1, 1, 24}, Shape{2, 1, 7}}};
  for (const auto& [form_name, keys, values] : forms) {
    const Shape rows(std::vector<Dim>(values.dims().begin(), values.dims().end() - 1));
    for (const bool delta : {false, true}) {
      const std::string variant = form_name + (delta ? "_delta" : "");
      const Attributes attributes = {{"scale", 0.35}, {"delta", delta}};
      cases.add_case(Op::linear_attention, variant,
                     graph_of({keys, keys, values, rows, rows}, [=](Graph& g, const Values& x) {
                       return Values{make_value(g, Op::linear_attention, operands(g, x), attributes)};
                     }));
      cases
          .add_case(Op::linear_attention_backward, variant,
                    graph_of({keys, keys, values, rows, rows, values},
                             [=](Graph& g, const Values& x) {
                               Values all = operands(g, x);
                               all.insert(all.begin(), x[5]);
                               return g.node(make_node(g, Op::linear_attention_backward, all, attributes)).outputs;
                             }))
          .differentiable = false;
    }
  }
  cases.add_case(
      Op::linear_attention, "state_space",
      graph_of({Shape{2, 67, 4, 5}, Shape{2, 67, 4}, Shape{4}, Shape{2, 67, 2, 8}, Shape{2, 67, 2, 8}, Shape{4}},
               [](Graph& g, const Values& x) {
                 const StateSpace space{softplus(g, x[1]), neg(g, exp(g, x[2])), x[3], x[4], x[5]};
                 return Values{state_space_scan(g, x[0], space)};
               }));
}

}  // namespace ridgepoint::testing
