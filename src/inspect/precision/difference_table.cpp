#include "inspect/precision/difference_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "interchange/safetensors_names.h"

namespace ridgepoint::tables {
namespace {

std::string scientific(double value) { return value == 0 ? "0" : fmt::format("{:.2e}", value); }

// fmt prints the sign of a NaN, which has no meaning.
double unsigned_nan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

std::string sentence_on(const NamedDifference& worst) {
  const TensorDifference& d = worst.difference;
  const Tolerance& tolerance = worst.tolerance;
  if (d.max_absolute == 0) return "No element differs.";
  if (!tolerance.elementwise) {
    return fmt::format("The update of {} differs most: its relative L2 error is {}, {} {:g}.", worst.name,
                       scientific(d.relative_l2), d.tolerance_ratio > 1 ? "beyond" : "within", tolerance.relative);
  }
  std::string text = fmt::format("{} differs most: element {} is {:.9g} instead of {:.9g}, the relative L2 error is {}",
                                 worst.name, element_name(worst.shape, d.worst_element), unsigned_nan(d.worst_value),
                                 unsigned_nan(d.worst_reference), scientific(d.relative_l2));
  if (d.tolerance_ratio > 1 && d.beyond == 0) return text + fmt::format(", beyond rtol {:g}.", tolerance.relative);
  if (d.beyond == 0) {
    return text + fmt::format(". Everything is within rtol {:g}, atol {:g}.", tolerance.relative, tolerance.absolute);
  }
  return text + fmt::format("; {} of its {} elements {} beyond rtol {:g}, atol {:g}.", d.beyond, worst.shape.elements(),
                            d.beyond == 1 ? "is" : "are", tolerance.relative, tolerance.absolute);
}

// The elements beyond tolerance; a tensor may be beyond it by its relative L2 error alone.
std::string beyond_cell(const TensorDifference& d) {
  return d.beyond == 0 && d.tolerance_ratio > 1 ? "as a whole" : std::to_string(d.beyond);
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
  constexpr std::string_view kGradient = "grad.", kParameter = "param.";  // in this order in the map
  Comparison comparison;
  const std::string file = reference.path().string();
  std::set<std::string> zero_gradients;  // the parameters
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
      if (zero_gradients.contains(name.substr(kParameter.size()))) continue;
      const HostTensor before = initial(name.substr(kParameter.size()));
      const Tolerance held_to = update_tolerance(tolerance);
      comparison.differences.push_back(
          {name, tensor.type.shape,
           compare_tensors(update_of(tensor, before), update_of(reference.read(name), before), held_to), held_to});
      continue;
    }
    comparison.differences.push_back(
        {name, tensor.type.shape, compare_tensors(tensor, reference.read(name), tolerance), tolerance});
    if (name.starts_with(kGradient) && comparison.differences.back().difference.is_rounding)
      zero_gradients.insert(name.substr(kGradient.size()));
  }
  if (!zero_gradients.empty()) {
    comparison.notes.push_back(
        fmt::format("parameters whose gradient is 0 but for rounding are not compared, because an optimizer may turn "
                    "that into an update of any size up to the learning rate: {}",
                    fmt::join(zero_gradients, ", ")));
  }
  for (const std::string& name : reference.names()) {
    if (!results.contains(name)) {
      comparison.notes.push_back(
          fmt::format("{} of '{}' was not compared: the results have no tensor of that name", quote_name(name), file));
    }
  }
  return comparison;
}

Page comparison_page(const Comparison& comparison) {
  Page page;
  page.shown_by = "A wider terminal";
  Table& table = page.tables.emplace_back();
  const NamedDifference* worst = comparison.worst();
  if (worst == nullptr) {
    table.caption = "Nothing could be compared.";
    return page;
  }
  table.columns = {left("tensor"),       left("shape", 1),         right("max abs"),         right("max rel", 2),
                   right("relative L2"), left("worst element", 3), right("beyond tolerance")};
  for (const auto& [name, shape, d, tolerance] : comparison.differences) {
    table.add({name, shape.to_string(), scientific(d.max_absolute), scientific(d.max_relative),
               scientific(d.relative_l2), element_name(shape, d.worst_element), beyond_cell(d)});
  }
  table.note = sentence_on(*worst);
  return page;
}

}  // namespace ridgepoint::tables
