// Data parallelism: sums the loss and the gradients over all ranks, before the optimizer or an output reads them. The
// sums are means because differentiate_outputs begins with 1 / ranks. Gradients are summed in buckets. Each bucket is
// an all_reduce directly after the node that makes the bucket's last gradient, so that it runs beside backward. Small
// gradients, such as the gradients of norms, are in the last bucket. A gradient that backward makes in bf16 or fp16 is
// summed in that type, unless options.parallel has another. Casts and parts of sums stand after backward; otherwise
// backward would wait for the sums. The optimizer's updates stand in the order in which their gradients are summed, so
// that updates can run while the last sum runs. Without overlap all sums stand after backward, and the next launch
// waits for all of them.
//
// The gradient of the embedding is the last, and its table may be the largest parameter. If the table is large, and the
// gradients of all ranks' tokens have fewer bytes, ranks that store the whole table gather the tokens and these
// gradients, and each rank adds the rows of all ranks. If the table is also the head, the gradient of the head is
// summed beside backward.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/collectives.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/pass.h"
#include "passes/training/training.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// A gradient below 1/kSmallPartsOfBucket of a bucket is small. Copy engines send large gradients, but a small one needs
// a kernel of NCCL, which occupies multiprocessors while it waits for the other ranks. If small gradients together
// reach 1/kManySmallPartsOfBucket of a bucket, they do not wait for the last bucket.
constexpr std::int64_t kSmallPartsOfBucket = 256;
constexpr std::int64_t kManySmallPartsOfBucket = 16;

// A smaller table is summed: an all_reduce of 64 MiB takes a third of a millisecond on four H200s.
constexpr std::int64_t kLargeTableBytes = std::int64_t{64} << 20;

class GradientReducer {
 public:
  GradientReducer(Graph& graph, const ParallelOptions& options) : graph_(graph), settings_(graph), options_(options) {}

  bool run() {
    find_gradients();
    find_positions();
    find_tables();
    const std::vector<std::vector<Value>> made = buckets();
    for (const std::vector<Value>& bucket : made) reduce(bucket, &bucket == &made.back());
    for (Table& table : tables_) gather_tokens(table);
    insert_behind_backward();
    for (const Table& table : tables_) add_rows(table);
    replace_in_optimizer();
    replace_in_outputs();
    order_updates();
    graph_.set_insertion_at_end();
    // Parts and casts of gradients, which parts and casts of the sums replace, and tables of the own tokens.
    erase_unused(graph_, [&](const Node& node) {
      return reduced_.contains(node.outputs[0]) || sums_.contains(node.outputs[0]) || node.op == Op::embedding_backward;
    });
    return !sums_.empty();
  }

 private:
  // The gradient of a table: the rows that embedding_backward makes, and what is added to them, if anything.
  struct Table {
    Value gradient;
    std::optional<Value> other;
    NodeId embedding;
    std::vector<Value> gathered = {};  // the gradients of the tokens of all ranks, and the tokens
  };

  // The loss, and the values of backward that the optimizer and the outputs read.
  void find_gradients() {
    for (const NodeId id : graph_.order()) {
      if (graph_.node(id).phase != Phase::optimizer) continue;
      for (const Value value : graph_.node(id).inputs) {
        if (is_gradient(value)) add_source(value);
      }
    }
    for (const Output& output : graph_.outputs()) {
      if (output.role == OutputRole::gradient) add_source(output.value);
      if (output.role == OutputRole::loss) local_loss_ = output.value;
    }
  }

  bool is_gradient(Value value) const {
    const Node& producer = graph_.producer_node(value);
    return producer.phase == Phase::backward && op_class(producer.op) != OpClass::state;
  }

  // A part or an exact cast of a gradient is made again from the sum of the whole gradient.
  Value source_of(Value value) const {
    const Node& producer = graph_.producer_node(value);
    if (producer.op == Op::split) return source_of(producer.inputs[0]);
    if (const std::optional<Value> low = low_source(graph_, value); low && is_gradient(*low)) return source_of(*low);
    return value;
  }

  void add_source(Value value) {
    const Value source = source_of(value);
    if (std::ranges::find(sources_, source) == sources_.end()) sources_.push_back(source);
  }

  void find_positions() {
    position_ = positions(graph_);
    for (const NodeId id : graph_.order()) {
      // The losses of micro-batches may be added behind backward.
      if (graph_.node(id).phase == Phase::backward || (local_loss_ && id == graph_.producer(*local_loss_))) {
        behind_backward_.reset();
      } else if (!behind_backward_) {
        behind_backward_ = id;
      }
    }
    sort_sources();
  }

  void sort_sources() {
    std::ranges::stable_sort(sources_, {}, [&](Value value) { return position_[graph_.producer(value).id]; });
  }

  // Takes gradients of tables from the sources, but for the other gradients. The last sum stays, because the loss goes
  // with it.
  void find_tables() {
    if (options_.shard != Sharding::none) return;
    std::size_t left = sources_.size();
    for (Value& source : sources_) {
      const std::optional<Table> table = table_of(source);
      if (!table || !sends_less(*table) || (!table->other && left == 1)) continue;
      tables_.push_back(*table);
      source = table->other ? source_of(*table->other) : Value{};
      left -= table->other ? 0 : 1;
    }
    std::erase(sources_, Value{});
    sort_sources();
  }

  std::optional<Table> table_of(Value gradient) const {
    const Node& node = graph_.producer_node(gradient);
    if (node.op == Op::embedding_backward) return Table{gradient, {}, graph_.producer(gradient)};
    if (node.op != Op::add) return std::nullopt;
    for (const std::size_t i : {1, 0}) {  // the later one: the other is summed before
      const NodeId embedding = graph_.producer(node.inputs[i]);
      const Value other = node.inputs[1 - i];
      if (graph_.node(embedding).op == Op::embedding_backward && is_gradient(other))
        return Table{gradient, other, embedding};
    }
    return std::nullopt;
  }

  // A rank sends its tokens to each of the others, and a sum of the table nearly twice.
  bool sends_less(const Table& table) const {
    const Value rows = graph_.node(table.embedding).inputs[0];
    const auto sent = static_cast<std::int64_t>(graph_.type(low_source(graph_, rows).value_or(rows)).bytes());
    const auto bytes = static_cast<std::int64_t>(graph_.type(table.gradient).bytes());
    return bytes >= kLargeTableBytes && sent * options_.data <= bytes;
  }

  void gather_tokens(Table& table) {
    const std::vector<Value> operands = graph_.node(table.embedding).inputs;
    insert_after(graph_.producer(operands[0]));
    const Value low = low_source(graph_, operands[0]).value_or(operands[0]);
    table.gathered = all_gather(graph_, {low, operands[1]}, options_.data);
    Attributes& attributes = graph_.node(graph_.producer(table.gathered[0])).attributes;
    attributes.set(kOfTokens, true);
    if (!options_.overlap) attributes.set(kExposed, true);
  }

  void add_rows(const Table& table) {
    graph_.set_scope(graph_.scope_name(graph_.node(table.embedding)));
    const Value rows = cast_to_type_of(graph_.node(table.embedding).inputs[0], table.gathered[0]);
    const Value sum = embedding_backward(graph_, rows, table.gathered[1],
                                         graph_.node(table.embedding).attributes.get<std::int64_t>("rows"));
    sums_[table.gradient] = table.other ? add(graph_, reduced(*table.other), sum) : sum;
  }

  // In the order in which backward makes the gradients.
  std::vector<std::vector<Value>> buckets() const {
    std::vector<std::vector<Value>> made;
    std::vector<Value> small;
    std::int64_t bytes = 0, small_bytes = 0;
    const auto add = [&](std::span<const Value> values, std::int64_t more) {
      if (made.empty() || bytes >= options_.bucket_bytes) {
        made.emplace_back();
        bytes = 0;
      }
      made.back().insert(made.back().end(), values.begin(), values.end());
      bytes += more;
    };
    for (const Value source : sources_) {
      const auto added = static_cast<std::int64_t>(graph_.type(source).bytes());
      if (added >= options_.bucket_bytes / kSmallPartsOfBucket) {
        add({&source, 1}, added);
        continue;
      }
      small.push_back(source);
      small_bytes += added;
      if (small_bytes < options_.bucket_bytes / kManySmallPartsOfBucket) continue;
      add(small, std::exchange(small_bytes, 0));
      small.clear();
    }
    if (made.empty() && !small.empty()) made.emplace_back();
    if (!made.empty()) made.back().insert(made.back().end(), small.begin(), small.end());
    return made;
  }

  void reduce(const std::vector<Value>& bucket, bool is_last) {
    const bool has_loss = local_loss_ && is_last;
    const Value last =
        *std::ranges::max_element(bucket, {}, [&](Value value) { return position_[graph_.producer(value).id]; });
    const NodeId of_gradient = graph_.producer(last);
    const NodeId of_loss = has_loss ? graph_.producer(*local_loss_) : of_gradient;
    insert_after(position_[of_loss.id] > position_[of_gradient.id] ? of_loss : of_gradient);
    std::vector<Value> operands;
    for (const Value value : bucket) operands.push_back(cast_for_network(value));
    if (has_loss) operands.push_back(scale(graph_, *local_loss_, 1.0 / static_cast<double>(options_.data)));
    const std::vector<Value> sums = all_reduce(graph_, operands, options_.data);
    Attributes& attributes = graph_.node(graph_.producer(sums[0])).attributes;
    attributes.set("bucket", ++bucket_);
    if (!options_.overlap) attributes.set(kExposed, true);
    for (std::size_t i = 0; i < bucket.size(); ++i) sums_[bucket[i]] = sums[i];
    if (has_loss) loss_ = sums.back();
  }

  void insert_after(NodeId id) {
    if (!options_.overlap) return insert_behind_backward();
    graph_.set_phase(Phase::backward);
    graph_.set_scope("");
    graph_.set_insertion_behind(id);
  }

  // After everything that was inserted there before.
  void insert_behind_backward() {
    graph_.set_phase(Phase::backward);
    graph_.set_scope("");
    behind_backward_ ? graph_.set_insertion_before(*behind_backward_) : graph_.set_insertion_at_end();
  }

  Value cast_for_network(Value value) {
    if (!launches(graph_.producer_node(view_root(graph_, value)).op)) value = copy(graph_, value);  // a constant
    const DType dtype = options_.reduce_dtype.value_or(graph_.type(value).dtype);
    return graph_.type(value).dtype == dtype ? value : cast(graph_, value, dtype);
  }

  Value cast_to_type_of(Value gradient, Value sum) {
    const DType dtype = graph_.type(gradient).dtype;
    return graph_.type(sum).dtype == dtype ? sum : cast(graph_, sum, dtype);
  }

  // The sum of a gradient in its type, or the part or cast of a sum.
  Value reduced(Value value) {
    if (const auto found = reduced_.find(value); found != reduced_.end()) return found->second;
    if (const auto sum = sums_.find(value); sum != sums_.end()) {
      graph_.set_scope("");
      return reduced_[value] = cast_to_type_of(value, sum->second);
    }
    if (const std::optional<Value> low = low_source(graph_, value)) {
      const auto sum = sums_.find(*low);  // of a low gradient, which may have the type of the cast already
      if (sum != sums_.end() && graph_.type(sum->second).dtype == graph_.type(value).dtype)
        return reduced_[value] = sum->second;
    }
    const Node& producer = graph_.producer_node(value);
    const Value whole = reduced(producer.inputs[0]);
    graph_.set_scope(graph_.scope_name(producer));
    const NodeId made = make_node(graph_, producer.op, {whole}, producer.attributes);
    for (std::size_t i = 0; i < producer.outputs.size(); ++i) {
      graph_.set_type(graph_.node(made).outputs[i], graph_.type(producer.outputs[i]));
      reduced_[producer.outputs[i]] = graph_.node(made).outputs[i];
    }
    return reduced_.at(value);
  }

  void replace_in_optimizer() {
    for (const NodeId id : nodes_of(graph_)) {
      if (graph_.node(id).phase != Phase::optimizer) continue;
      for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const Value value = graph_.node(id).inputs[i];
        if (!is_gradient(value)) continue;
        const Value sum = reduced(value);
        graph_.node(id).inputs[i] = sum;
      }
    }
  }

  // Updates whose results nothing reads and whose gradients are sums: after the others, in the order of the sums.
  void order_updates() {
    const Readers readers(graph_);
    const std::vector<std::size_t> position = positions(graph_);
    std::vector<std::pair<std::size_t, NodeId>> updates;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const std::optional<OptimizerLayout> layout = optimizer_layout(node);
      if (!layout || std::ranges::any_of(node.outputs, [&](Value value) { return !readers.of(value).empty(); }))
        continue;
      const Value gradient = node.inputs[layout->scalars + 1];
      const bool is_table =
          std::ranges::any_of(tables_, [&](const Table& one) { return sums_[one.gradient] == gradient; });
      const NodeId sum = graph_.producer(source_of(gradient));
      if (is_table || op_class(graph_.node(sum).op) == OpClass::collective) updates.emplace_back(position[sum.id], id);
    }
    if (updates.empty()) return;
    std::ranges::stable_sort(updates, {}, [](const auto& update) { return update.first; });
    const NodeId last = updates.back().second;
    if (const NodeId end = graph_.order().back(); end != last) {
      graph_.move_before(last, end);
      graph_.move_before(end, last);
    }
    for (std::size_t i = updates.size() - 1; i > 0; --i) graph_.move_before(updates[i - 1].second, updates[i].second);
  }

  void replace_in_outputs() {
    rewrite_outputs(graph_, [&](Output& output) {
      if (output.role == OutputRole::gradient) output.value = reduced(output.value);
      if (output.role == OutputRole::loss && loss_) output.value = *loss_;
    });
  }

  Graph& graph_;
  const GraphSettings settings_;
  const ParallelOptions& options_;
  std::vector<Value> sources_;
  std::vector<Table> tables_;
  std::optional<Value> local_loss_, loss_;
  std::vector<std::size_t> position_;      // by node
  std::optional<NodeId> behind_backward_;  // the first node behind the last of backward
  std::map<Value, Value> sums_, reduced_;  // by gradient; and by part or cast of one
  std::int64_t bucket_ = 0;                // counted from 1, for messages
};

}  // namespace

bool reduce_gradients(Graph& graph, const PassOptions& options) {
  if (!options.parallel.is_parallel() || !runs_backward(options.mode)) return false;
  if (const std::string state = state_of_data(graph); !state.empty())
    throw Error("the ranks would have different values of the state '" + state +
                    "', which each of them updates from its own data; run it on one rank",
                ErrorKind::unsupported);
  return GradientReducer(graph, options.parallel).run();
}

}  // namespace ridgepoint
