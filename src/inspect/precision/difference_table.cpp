#include "inspect/precision/difference_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "core/text/nearest.h"
#include "inspect/precision/difference_remarks.h"
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
  std::string text =
      fmt::format("{} differs most: element {} is {:.9g} in the file and {:.9g} here, the relative L2 error is {}",
                  worst.name, element_name(worst.shape, d.worst_element), unsigned_nan(d.worst_reference),
                  unsigned_nan(d.worst_value), scientific(d.relative_l2));
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

// Groups of results that a file may lack as a whole, with their names.
struct OptionalGroup {
  std::string_view names;
  bool (*has)(std::string_view name);
};
constexpr OptionalGroup kOptionalGroups[] = {
    {"grad.NAME", [](std::string_view name) { return name.starts_with("grad."); }},
    {"param.NAME", [](std::string_view name) { return name.starts_with("param."); }},
    {"dq, dk and dv", [](std::string_view name) { return name == "dq" || name == "dk" || name == "dv"; }},
    {"loss.K", [](std::string_view name) { return name.starts_with("loss."); }},
    {"lse", [](std::string_view name) { return name == "lse"; }}};

// Tells which results the file lacks: a problem for each, and a note for each optional group.
void add_missing(Comparison& comparison, const std::map<std::string, HostTensor>& results,
                 const SafetensorsFile& reference, const std::set<std::string>& known) {
  const std::string file = reference.path().string();
  const std::vector<std::string> names = reference.names();
  std::vector<std::string_view> others;  // that may be misspelt
  for (const std::string& name : names) {
    if (!results.contains(name) && !known.contains(name)) others.push_back(name);
  }
  for (const auto& [name, tensor] : results) {
    if (reference.contains(name)) continue;
    const auto group =
        std::ranges::find_if(kOptionalGroups, [&wanted = name](const OptionalGroup& each) { return each.has(wanted); });
    if (group == std::end(kOptionalGroups) || std::ranges::any_of(names, group->has)) {
      if (name.starts_with("loss.")) continue;  // of other steps
      comparison.problems.push_back(fmt::format("'{}' is not in '{}'{}", name, file, hint(name, others)));
      continue;
    }
    std::string note = fmt::format("'{}' has no {}, so nothing was compared with it", file, group->names);
    if (comparison.notes.empty() || comparison.notes.back() != note) comparison.notes.push_back(std::move(note));
  }
}

// AdamW divides a gradient by its own size. So if a gradient is 0 but for rounding, the update can have any size up to
// the learning rate, as in the bias of keys whose elements are not rotated, or turn slowly. Sets the updates of such
// elements to 0: their gradient in the file is below kShare of the tensor's root mean square, and not 0 on both sides.
// Returns their number.
std::int64_t leave_out_rounding(const HostTensor& gradient, const HostTensor& reference, HostTensor& update,
                                HostTensor& reference_update) {
  constexpr double kShare = 1e-3;
  const HostTensor mine = convert(gradient, DType::fp64), theirs = convert(reference, DType::fp64);
  double squares = 0;
  for (const double g : theirs.as<double>()) squares += g * g;
  const double least = kShare * std::sqrt(squares / static_cast<double>(theirs.type.elements()));
  if (!std::isfinite(least)) return 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < theirs.as<double>().size(); ++i) {
    const double g = theirs.as<double>()[i];
    if (std::fabs(g) >= least || (g == 0 && mine.as<double>()[i] == 0)) continue;
    update.as<double>()[i] = reference_update.as<double>()[i] = 0;
    ++count;
  }
  return count;
}

// Compares the updates of a parameter by two runs. Elements whose gradient is only rounding are compared only if the
// others differ, too.
NamedDifference compare_updates(const std::string& parameter, const std::map<std::string, HostTensor>& results,
                                const SafetensorsFile& reference, const HostTensor& before, const Tolerance& tolerance,
                                std::vector<std::string>& notes) {
  const std::string name = "param." + parameter, gradient = "grad." + parameter;
  const HostTensor& after = results.at(name);
  HostTensor update = update_of(after, before), reference_update = update_of(reference.read(name), before);
  NamedDifference found{name, after.type.shape, compare_tensors(update, reference_update, tolerance), tolerance};
  const bool has_gradients =
      results.contains(gradient) && reference.contains(gradient) && reference.type(gradient).shape == after.type.shape;
  if (found.difference.tolerance_ratio <= 1 || tolerance.elementwise || !has_gradients) return found;
  const std::int64_t left_out =
      leave_out_rounding(results.at(gradient), reference.read(gradient), update, reference_update);
  const TensorDifference without = compare_tensors(update, reference_update, tolerance);
  if (without.tolerance_ratio > 1) return found;
  found.difference = without;
  notes.push_back(
      fmt::format("{} of the {} elements of {} have a gradient that is 0 but for rounding, and their updates are not "
                  "compared",
                  left_out, after.type.elements(), parameter));
  return found;
}

// "grad.a, grad.b and 2 more: 8 times what it should be": one sentence for all tensors with the same remark.
std::vector<std::string> grouped_remarks(const Comparison& comparison) {
  constexpr std::size_t kShown = 3;
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& [name, remark] : comparison.remarks) {
    const auto group = std::ranges::find(groups, remark, &std::pair<std::string, std::vector<std::string>>::first);
    (group == groups.end() ? groups.emplace_back(remark, std::vector<std::string>()) : *group).second.push_back(name);
  }
  std::vector<std::string> texts;
  for (auto& [remark, names] : groups) {
    const std::size_t more = names.size() > kShown ? names.size() - kShown : 0;
    names.resize(names.size() - more);
    texts.push_back(
        fmt::format("{}{}: {}", fmt::join(names, ", "), more == 0 ? "" : fmt::format(" and {} more", more), remark));
  }
  return texts;
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
                             const std::function<HostTensor(const std::string& parameter)>& initial,
                             const NamedSizes& sizes, const std::set<std::string>& known) {
  constexpr std::string_view kGradient = "grad.", kParameter = "param.";  // in this order in the map
  Comparison comparison;
  const std::string file = reference.path().string();
  add_missing(comparison, results, reference, known);
  std::set<std::string> zero_gradients;  // the parameters
  for (const auto& [name, tensor] : results) {
    if (!reference.contains(name)) continue;
    const TensorType& type = reference.type(name);
    if (!is_floating(type.dtype) || !(type.shape == tensor.type.shape)) {
      comparison.problems.push_back(fmt::format("'{}' is {} in '{}' and {} here{}", name, type.to_string(), file,
                                                tensor.type.to_string(),
                                                remark_on_shape(tensor.type.shape, type.shape)));
      continue;
    }
    if (name.starts_with(kParameter)) {
      if (zero_gradients.contains(name.substr(kParameter.size()))) continue;
      const std::string parameter = name.substr(kParameter.size());
      comparison.differences.push_back(compare_updates(parameter, results, reference, initial(parameter),
                                                       update_tolerance(tolerance), comparison.notes));
      continue;
    }
    const HostTensor theirs = reference.read(name);
    const NamedDifference& found = comparison.differences.emplace_back(
        NamedDifference{name, tensor.type.shape, compare_tensors(tensor, theirs, tolerance), tolerance});
    if (found.difference.tolerance_ratio > 1) comparison.remarks[name] = remark_on(found, tensor, theirs, sizes);
    if (name.starts_with(kGradient) && found.difference.is_rounding)
      zero_gradients.insert(name.substr(kGradient.size()));
  }
  std::erase_if(comparison.remarks, [](const auto& remark) { return remark.second.empty(); });
  if (!zero_gradients.empty()) {
    comparison.notes.push_back(
        fmt::format("parameters whose gradient is 0 but for rounding are not compared, because an optimizer may turn "
                    "that into an update of any size up to the learning rate: {}",
                    fmt::join(zero_gradients, ", ")));
  }
  for (const std::string& name : reference.names()) {
    if (!results.contains(name) && !known.contains(name)) {
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
  table.note = (comparison.within_tolerance() ? "The file agrees. " : "") + sentence_on(*worst);
  for (const std::string& remark : grouped_remarks(comparison)) table.note += "\n" + remark + ".";
  for (const std::string& cause : comparison.causes) table.note += "\n" + cause + ".";
  return page;
}

}  // namespace ridgepoint::tables
