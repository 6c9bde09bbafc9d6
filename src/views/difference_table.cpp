#include "views/difference_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "views/record_table.h"
#include "views/table/fitted_table.h"

namespace ridgepoint::cli {
namespace {

using Align = FittedTable::Align;

std::string scientific(double value) { return value == 0 ? "0" : fmt::format("{:.2e}", value); }

std::string sentence_on(const NamedDifference& worst) {
  const TensorDifference& d = worst.difference;
  const Tolerance& tolerance = worst.tolerance;
  if (d.max_absolute == 0) return "No element differs.\n";
  if (!tolerance.elementwise) {
    return fmt::format("The update of {} differs most: its relative L2 error is {}, {} {:g}.\n", worst.name,
                       scientific(d.relative_l2), d.tolerance_ratio > 1 ? "beyond" : "within", tolerance.relative);
  }
  std::string text = fmt::format("{} differs most, at {}: {:.9g} against {:.9g}, relative L2 {}", worst.name,
                                 element_name(worst.shape, d.worst_element), d.worst_value, d.worst_reference,
                                 scientific(d.relative_l2));
  if (d.tolerance_ratio > 1 && d.beyond == 0) return text + fmt::format(", beyond rtol {:g}.\n", tolerance.relative);
  if (d.beyond == 0) {
    return text + fmt::format(". Everything is within rtol {:g}, atol {:g}.\n", tolerance.relative, tolerance.absolute);
  }
  return text + fmt::format("; {} of its {} elements {} beyond rtol {:g}, atol {:g}.\n", d.beyond,
                            worst.shape.elements(), d.beyond == 1 ? "is" : "are", tolerance.relative,
                            tolerance.absolute);
}

}  // namespace

bool Comparison::within_tolerance() const {
  return problems.empty() &&
         std::ranges::all_of(differences, [](const NamedDifference& d) { return d.difference.tolerance_ratio <= 1; });
}

const NamedDifference* Comparison::worst() const {
  const auto found = std::ranges::max_element(differences, {}, [](const NamedDifference& d) {
    return std::tuple(d.difference.tolerance_ratio, d.difference.relative_l2);
  });
  return found == differences.end() ? nullptr : &*found;
}

Comparison compare_with_file(const std::map<std::string, HostTensor>& results, const SafetensorsFile& reference,
                             const Tolerance& tolerance,
                             const std::function<HostTensor(const std::string& parameter)>& initial) {
  constexpr std::string_view kParameter = "param.";
  Comparison comparison;
  const std::string file = reference.path().string();
  for (const auto& [name, tensor] : results) {
    if (!reference.contains(name)) {
      if (!name.starts_with("loss.")) comparison.problems.push_back(fmt::format("'{}' is not in '{}'", name, file));
      continue;
    }
    const TensorType& type = reference.type(name);
    if (!is_floating(type.dtype) || !(type.shape == tensor.type.shape)) {
      comparison.problems.push_back(
          fmt::format("'{}' is {} in '{}' and {} here", name, type.to_string(), file, tensor.type.to_string()));
      continue;
    }
    if (name.starts_with(kParameter)) {
      const HostTensor before = initial(name.substr(kParameter.size()));
      const Tolerance held_to = update_tolerance(tolerance);
      comparison.differences.push_back(
          {name, tensor.type.shape,
           compare_tensors(update_of(tensor, before), update_of(reference.read(name), before), held_to), held_to});
      continue;
    }
    comparison.differences.push_back(
        {name, tensor.type.shape, compare_tensors(tensor, reference.read(name), tolerance), tolerance});
  }
  for (const std::string& name : reference.names()) {
    if (!results.contains(name)) {
      comparison.notes.push_back(fmt::format("'{}' of '{}' was not compared: nothing here has that name", name, file));
    }
  }
  return comparison;
}

std::string render_comparison(const Comparison& comparison, std::size_t width) {
  const NamedDifference* worst = comparison.worst();
  if (worst == nullptr) return "Nothing could be compared.\n";
  FittedTable table;
  table.add_column("tensor", Align::left);
  table.add_column("shape", Align::left, 1);
  table.add_column("max abs", Align::right);
  table.add_column("max rel", Align::right, 2);
  table.add_column("relative L2", Align::right);
  table.add_column("worst at", Align::left, 3);
  table.add_column("beyond", Align::right);
  for (const auto& [name, shape, d, tolerance] : comparison.differences) {
    table.add_row({name, shape.to_string(), scientific(d.max_absolute), scientific(d.max_relative),
                   scientific(d.relative_l2), element_name(shape, d.worst_element), fmt::format("{}", d.beyond)});
  }
  const std::size_t prose_width = std::min(width, kProseWidth);
  std::vector<std::string> left_out;
  const std::string text = table.text(width, left_out) + "\n" + wrap(sentence_on(*worst), prose_width);
  const std::string note = left_out_note(left_out, prose_width, "a wider terminal");
  return text + (note.empty() ? "" : "\n" + note);
}

}  // namespace ridgepoint::cli
