#include "backends/cuda/generator/sweeps.h"

#include <algorithm>
#include <utility>

namespace ridgepoint::cuda {
namespace {

bool is_expensive(const RowInstruction& instruction) {
  return instruction.kind == RowKind::elementwise && traits(instruction.op).effort != Effort::simple;
}

bool same_in_every_row(const RowAccess& access) {
  return std::all_of(access.row_strides.begin(), access.row_strides.end(),
                     [](std::int64_t stride) { return stride == 0; });
}

class Planner {
 public:
  explicit Planner(const RowProgram& program) : program_(program), count_(program.instructions.size()) {
    plan_.kept.assign(count_, false);
    early_.assign(count_, false);
  }

  SweepPlan run(bool keep) {
    sweep_all();
    if (keep) {
      const std::vector<bool> last = last_of_first_sweep();
      choose_kept();
      sweep_all();
      keep_instead(last);
      plan_.kept_bytes = most_kept_bytes();
    }
    return std::move(plan_);
  }

 private:
  const RowInstruction& at(int i) const { return program_.instructions[static_cast<std::size_t>(i)]; }

  void sweep_all() {
    plan_.sweeps.assign(static_cast<std::size_t>(program_.phases), {});
    available_.assign(count_, false);
    last_use_.assign(count_, -1);
    uses_.assign(count_, 0);
    for (int phase = 0; phase < program_.phases; ++phase) plan_sweep(phase);
  }

  void plan_sweep(int phase) {
    Sweep& sweep = plan_.sweeps[static_cast<std::size_t>(phase)];
    seen_.assign(count_, false);
    if (phase == 0) load_early(sweep);
    for (int i = 0; i < static_cast<int>(count_); ++i) {
      if (at(i).kind != RowKind::reduce || at(i).phase != phase) continue;
      sweep.reductions.push_back(i);
      need(at(i).operands[0], phase);
    }
    if (phase == program_.phases - 1) {
      for (int i = 0; i < static_cast<int>(program_.outputs.size()); ++i) {
        const RowOutput& output = program_.outputs[static_cast<std::size_t>(i)];
        if (output.store != RowStore::element && output.store != RowStore::accumulate_columns) continue;
        sweep.outputs.push_back(i);
        need(output.value, phase);
      }
    }
    std::sort(sweep.loads.begin(), sweep.loads.end());
    std::sort(sweep.computed.begin(), sweep.computed.end());
  }

  // What only later sweeps need is loaded with the rest, so that memory does not wait for the reductions of a block. Of
  // shorter rows a multiprocessor has many at once.
  void load_early(Sweep& sweep) {
    for (int i = 0; i < static_cast<int>(count_); ++i) {
      const auto index = static_cast<std::size_t>(i);
      if (!early_[index]) continue;
      sweep.loads.push_back(i);
      available_[index] = true;
    }
  }

  void need(int i, int phase) {
    const auto index = static_cast<std::size_t>(i);
    if (at(i).level != RowLevel::column || seen_[index]) return;
    seen_[index] = true;
    ++uses_[index];
    last_use_[index] = phase;
    if (available_[index]) return;
    available_[index] = plan_.kept[index];
    Sweep& sweep = plan_.sweeps[static_cast<std::size_t>(phase)];
    if (at(i).kind == RowKind::load) {
      sweep.loads.push_back(i);
      return;
    }
    for (const int operand : at(i).operands) {
      if (operand >= 0) need(operand, phase);
    }
    sweep.computed.push_back(i);
  }

  bool varies_with_row(int i) const {
    return at(i).kind != RowKind::load || program_.space.row_count() <= 1 || !same_in_every_row(at(i).access);
  }

  // Of a program of two sweeps, what the second reads of the first's values.
  std::vector<bool> last_of_first_sweep() const {
    std::vector<bool> last(count_);
    const auto add = [&](int i) {
      const auto index = static_cast<std::size_t>(i);
      if (at(i).level == RowLevel::column && at(i).phase == 0 && uses_[index] > 1 && varies_with_row(i))
        last[index] = true;
    };
    if (program_.phases != 2) return last;
    for (const int i : plan_.sweeps[1].computed) {
      for (const int operand : at(i).operands) {
        if (at(i).phase == 1 && operand >= 0) add(operand);
      }
    }
    for (const int o : plan_.sweeps[1].outputs) add(program_.outputs[static_cast<std::size_t>(o)].value);
    return last;
  }

  // Keeps these values where they are fewer bytes than loads and expensive functions, and leave nothing to load again.
  void keep_instead(const std::vector<bool>& last) {
    if (program_.phases != 2 || std::ranges::find(early_, true) != early_.end()) return;
    const int bytes = most_kept_bytes();
    const std::vector<bool> before = std::exchange(plan_.kept, last);
    sweep_all();
    const bool loads_again = std::ranges::any_of(
        plan_.sweeps[1].loads, [&](int i) { return !last[static_cast<std::size_t>(i)] && varies_with_row(i); });
    if (!loads_again && most_kept_bytes() < bytes) return;
    plan_.kept = before;
    sweep_all();
  }

  void choose_kept() {
    const bool many_rows = program_.space.row_count() > 1;
    const bool is_long = program_.space.columns > kLongestWarpRow;
    for (int i = 0; i < static_cast<int>(count_); ++i) {
      const auto index = static_cast<std::size_t>(i);
      const bool load = at(i).kind == RowKind::load && !(many_rows && same_in_every_row(at(i).access));
      early_[index] = is_long && load && uses_[index] > 0 && first_use(i) > 0;
      plan_.kept[index] = early_[index] || (uses_[index] > 1 && (load || is_expensive(at(i))));
    }
  }

  // The bytes of values that are kept from one sweep to the next; the maximum over all gaps between sweeps.
  int most_kept_bytes() const {
    int most = 0;
    for (int gap = 1; gap < program_.phases; ++gap) {
      int bytes = 0;
      for (int i = 0; i < static_cast<int>(count_); ++i) {
        const auto index = static_cast<std::size_t>(i);
        if (plan_.kept[index] && first_use(i) < gap && last_use_[index] >= gap) bytes += element_bytes(i);
      }
      most = std::max(most, bytes);
    }
    return most;
  }

  int first_use(int i) const {
    for (std::size_t phase = 0; phase < plan_.sweeps.size(); ++phase) {
      const Sweep& sweep = plan_.sweeps[phase];
      const std::vector<int>& made = at(i).kind == RowKind::load ? sweep.loads : sweep.computed;
      if (std::binary_search(made.begin(), made.end(), i)) return static_cast<int>(phase);
    }
    return program_.phases;
  }

  // A load is kept in its memory type, unless the rows of the kernel are summed: then the compiler widens it once.
  int element_bytes(int i) const {
    const int stored = static_cast<int>(size_bytes(at(i).dtype));
    const bool is_narrow = at(i).kind == RowKind::load && std::ranges::none_of(program_.outputs, is_accumulating);
    return is_narrow ? stored : std::max(stored, 4);
  }

  const RowProgram& program_;
  std::size_t count_;
  SweepPlan plan_;
  std::vector<bool> seen_;       // in the current sweep
  std::vector<bool> available_;  // kept and already computed
  std::vector<int> last_use_;
  std::vector<bool> early_;  // loads of the first sweep that only later ones need
  std::vector<int> uses_;    // sweeps that need it
};

}  // namespace

SweepPlan plan_sweeps(const RowProgram& program, bool keep) { return Planner(program).run(keep); }

}  // namespace ridgepoint::cuda
