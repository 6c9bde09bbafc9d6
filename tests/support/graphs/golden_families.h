// Tiny models of every family of docs/models.md, with the logits, loss and gradients that they should have:
// tests/golden/families, made by tools/models/make_family_golden.py.
#pragma once

#include <filesystem>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/runtime/program.h"
#include "support/graphs/agreement.h"

namespace ridgepoint::testing {

std::filesystem::path golden_families_folder();

// The folders in it.
std::span<const std::string> golden_families();

// Tokens and results of a model.
std::filesystem::path golden_tensors(std::string_view model);

// The model as it is published: config.json and model.safetensors, whose weights are made from their rules.
void write_golden_model(std::string_view model, const std::filesystem::path& folder);

struct GoldenFamilyCase {
  std::string_view model;
  std::string_view device;
  Compile level = Compile::off;
};

// Every model on a device, at each of the levels.
std::vector<GoldenFamilyCase> golden_family_cases(std::string_view device, std::span<const Compile> levels);
std::string name_of(const GoldenFamilyCase& one);
inline void PrintTo(const GoldenFamilyCase& one, std::ostream* out) { *out << name_of(one); }

// Of logits, loss and the gradient of every tensor of the files: those whose relative L2 error on `device` is over
// `tolerance`. Throws Error for files that are missing or that do not hold the model's tensors.
std::vector<Disagreement> disagreements(const GoldenFamilyCase& one, std::shared_ptr<Device> device, double tolerance);

}  // namespace ridgepoint::testing
