// The views of a profile whose figures are known.
#include "inspect/profile/pages/page.h"

#include <algorithm>
#include <sstream>

#include "inspect/profile/pages/figures.h"
#include "support/matchers.h"
#include "support/records/sample_profile.h"
#include "tables/table/render.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string profile_as_text(const Profile& profile, const ProfileViewOptions& options = {},
                            std::size_t width = SIZE_MAX) {
  return render(Format::table, profile_page(std::span(&profile, 1), options, Format::table), width);
}
std::string comparison_as_text(const std::vector<Profile>& profiles) {
  ProfileViewOptions options;
  options.compares = true;
  return render(Format::table, profile_page(profiles, options, Format::table));
}

std::string view(Breakdown only) {
  ProfileViewOptions options;
  options.only = only;
  return profile_as_text(sample_profile(), options);
}

TEST(ProfileTables, the_kernel_table_says_shares_of_kernel_time_and_of_wall_time) {
  EXPECT_THAT(view(Breakdown::kernel),
              HasSubstr("time %  wall %  total ms  calls  avg us  median  min  max  std dev  name\n"
                        "  62.5    50.0     0.001      3     0.2     0.2  0.1  0.2      0.1  gemm\n"));
  EXPECT_THAT(view(Breakdown::kernel), HasSubstr(" 100.0    80.0     0.001      6     0.1"));
}

TEST(ProfileTables, the_class_table_ends_in_all_and_idle) {
  const std::string text = view(Breakdown::op_class);
  EXPECT_THAT(text, AllOf(HasSubstr("forward    matmul"), HasSubstr("           total "),
                          HasSubstr("optimizer  optimizer"), HasSubstr("No memory is zeroed")));
  const std::size_t all = text.find("\nall "), idle = text.find("\nidle ");
  EXPECT_LT(all, idle);
  EXPECT_THAT(text.substr(idle), HasSubstr("20.0"));
}

TEST(ProfileTables, the_module_table_indents) {
  const std::string text = view(Breakdown::scope);
  EXPECT_THAT(text, AllOf(HasSubstr("\nlayers.*"), HasSubstr("\n  attn"), HasSubstr("\n    softmax"),
                          HasSubstr("optimizer ms")));
}

TEST(ProfileTables, the_whole_page_holds_the_clock_against_the_trace) {
  const std::string text = profile_as_text(sample_profile());
  EXPECT_THAT(text,
              AllOf(HasSubstr("Inside attention"), HasSubstr("softmax"), HasSubstr("1 : 3.75"), HasSubstr("1 : 160"),
                    HasSubstr("host late"), HasSubstr("timed, without a profiler"), HasSubstr("50 ns a launch")));
}

TEST(ProfileTables, open_with_a_verdict) {
  const std::string text = profile_as_text(sample_profile());
  std::string joined = text;  // without the ends of lines
  std::ranges::replace(joined, '\n', ' ');
  const std::size_t verdict = text.find("Dominant kernel: gemm, 62.5 % of kernel time (0.001 ms in 3 calls)");
  EXPECT_NE(verdict, std::string::npos) << text;
  EXPECT_LT(verdict, text.find("\nKernels"));
  EXPECT_THAT(joined, AllOf(HasSubstr("its class, matmul, runs at 72.0 % of its ceiling (matmul rate)."),
                            HasSubstr(" Recoverable: "), HasSubstr("% of wall time), most of it host late: the host")));
}

TEST(ProfileTables, name_the_cause_of_idle_time_and_a_remedy_only_where_it_is_long) {
  Profile profile = sample_profile();
  profile.steps = {{0, 100'000}};  // after the last kernel there is nothing to do
  EXPECT_THAT(profile_as_text(profile), HasSubstr("most of it nothing to do: the host notices"));
  profile = sample_profile();
  profile.steps = {{99, 921}};
  EXPECT_THAT(profile_as_text(profile), HasSubstr("most of it dependency.\n"));
}

TEST(ProfileTables, fit_a_terminal) {
  for (const std::size_t width : {80, 100, 132}) {
    const std::string text = profile_as_text(sample_profile(), {}, width);
    for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(ProfileTables, say_what_was_left_out_for_width) {
  EXPECT_THAT(profile_as_text(sample_profile(), {}, 80), HasSubstr("Omitted for lack of width"));
  EXPECT_THAT(profile_as_text(sample_profile(), {}, 400), Not(HasSubstr("Omitted for lack of width")));
}

TEST(ProfileTables, a_profile_without_kernels_says_why_and_keeps_the_timing) {
  Profile profile;
  profile.run = sample_record();
  profile.problem = "another tool has it";
  const std::string text = profile_as_text(profile);
  EXPECT_THAT(text, AllOf(HasSubstr("ms per iteration"), HasSubstr("No kernels were recorded: another tool has it"),
                          Not(HasSubstr("Kernels ("))));
}

TEST(ProfileTables, records_that_were_lost_are_said_before_anything_else) {
  Profile profile = sample_profile();
  profile.dropped_records = 12;
  profile.silent_launches = 3;
  const std::string text = profile_as_text(profile);
  EXPECT_LT(text.find("dropped 12 records"), text.find("Kernels ("));
  EXPECT_LT(text.find("3 launches have no record"), text.find("Kernels ("));
}

TEST(ProfileTables, shares_move_between_profiles) {
  std::vector<Profile> profiles = {sample_profile(), sample_profile()};
  profiles[0].run.mode = Mode::forward;
  std::erase_if(profiles[0].kernels, [](const KernelRecord& kernel) { return kernel.phase != ProfilePhase::forward; });
  const std::string text = comparison_as_text(profiles);
  // Matmuls: 300 of 380 ns, then 500 of 800.
  EXPECT_THAT(text, AllOf(HasSubstr("forward ms"), HasSubstr("step ms"), HasSubstr("78.9"), HasSubstr("62.5"),
                          HasSubstr("-16.4"), HasSubstr("optimizer")));
}

TEST(ProfileTables, of_no_profiles_there_is_nothing_to_compare) { EXPECT_EQ(comparison_as_text({}), ""); }

TEST(ProfileTables, markdown_has_headings_and_no_blanks_to_lose) {
  const Profile profile = sample_profile();
  EXPECT_THAT(render(Format::markdown, profile_page(std::span(&profile, 1), {}, Format::markdown)),
              AllOf(HasSubstr("\n### By module"), HasSubstr("| ..attn |"), HasSubstr("|---|---:|")));
}

TEST(Ratio, is_written_with_the_smaller_side_as_one) {
  EXPECT_EQ(ratio(1, 206), "1 : 206");
  EXPECT_EQ(ratio(10, 38), "1 : 3.80");
  EXPECT_EQ(ratio(5, 2), "2.50 : 1");
  EXPECT_EQ(ratio(0, 2), "-");
}

}  // namespace
}  // namespace ridgepoint::tables
