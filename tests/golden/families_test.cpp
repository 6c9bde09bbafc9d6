// The families of docs/models.md against golden files: logits, loss and the gradient of every tensor of the files must
// agree to a relative L2 error below 1e-5. tests/backends/cuda/golden_families_test.cpp does the same on a card.

#include <set>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/model_config.h"
#include "support/graphs/golden_families.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint {
namespace {

using ::testing::UnorderedElementsAreArray;

constexpr double kFamilyTolerance = 1e-5;
constexpr Compile kLevels[] = {Compile::off, Compile::full};

class GoldenFamilies : public ::testing::TestWithParam<testing::GoldenFamilyCase> {};

TEST_P(GoldenFamilies, have_the_defined_logits_loss_and_gradients) {
  const testing::GoldenFamilyCase& one = GetParam();
  for (const testing::Disagreement& found :
       testing::disagreements(one, open_device(std::string(one.device)), kFamilyTolerance)) {
    ADD_FAILURE() << found.output << " differs by " << found.relative_error;
  }
}

std::string name_of_case(const ::testing::TestParamInfo<testing::GoldenFamilyCase>& test) {
  return name_of(test.param);
}
INSTANTIATE_TEST_SUITE_P(Cpu, GoldenFamilies, ::testing::ValuesIn(testing::golden_family_cases("cpu", kLevels)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Reference, GoldenFamilies,
                         ::testing::ValuesIn(testing::golden_family_cases("reference", {kLevels, 1})), name_of_case);

TEST(GoldenFamilyFiles, are_those_of_the_cases) {
  const std::string table = read_file(source_folder() / "tools/models/families/table.py", 1 << 20);
  std::vector<std::string> cases;
  const std::string begin = "\n    \"";
  for (std::size_t at = table.find("\nCASES = {"); (at = table.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    cases.push_back(table.substr(at, table.find('"', at) - at));
  }
  EXPECT_THAT(testing::golden_families(), UnorderedElementsAreArray(cases));
}

TEST(GoldenFamilyFiles, exist_for_every_family) {
  std::set<std::string> tested;
  for (const std::string_view model : testing::golden_families()) {
    const ModelConfig read = read_model_config(testing::golden_families_folder() / model);
    tested.insert(std::string(read.config.architecture.family));
  }
  for (const Family* family : families())
    EXPECT_TRUE(tested.contains(std::string(family->model_type))) << family->model_type;
}

}  // namespace
}  // namespace ridgepoint
