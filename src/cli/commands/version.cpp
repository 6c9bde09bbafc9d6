// ridgepoint version, also --version: what this binary was built from.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "backends/build_facts.h"
#include "cli/descriptions/command.h"
#include "cli/options/output.h"
#include "core/build_info.h"

namespace ridgepoint::cli {
namespace {

// One row with all facts in files; a line for each fact for people.
tables::Page page_of(const std::vector<BuildFact>& facts, Format format) {
  tables::Page page;
  tables::Table& table = page.tables.emplace_back();
  if (!is_for_people(format)) {
    tables::Cells cells;
    for (const BuildFact& fact : facts) {
      table.columns.push_back({fact.key, fact.name});
      cells.emplace_back(fact.text);
    }
    table.add(std::move(cells));
    return page;
  }
  table.columns = {tables::left("ridgepoint " + std::string(version())), tables::left("")};
  for (const BuildFact& fact : facts) {
    if (fact.key != "version") table.add({fact.name, fact.text});
  }
  return page;
}

class Version : public Command {
 public:
  std::string_view name() const override { return "version"; }
  std::string_view summary() const override {
    return "print the version, the source revision, the compiler and the libraries";
  }
  std::string_view examples() const override {
    return "ridgepoint version\n"
           "ridgepoint --version --format json";
  }
  std::string_view notes() const override {
    return "Libraries of NVIDIA are loaded when they are needed, so their versions are those that are found here.";
  }
  void add_options(CLI::App& app) override { output_.add_to(app); }

  int run() override {
    const std::vector<BuildFact> facts = build_facts();
    write(output_, [&](Format format, std::size_t) { return page_of(facts, format); });
    return kExitOk;
  }

 private:
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_version() { return std::make_unique<Version>(); }

}  // namespace ridgepoint::cli
