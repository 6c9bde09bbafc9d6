// What is read from stacks: which line is shown, and what the lines say of a block.

#include "inspect/memory/contents.h"
#include "inspect/memory/pages/page.h"
#include "support/matchers.h"
#include "support/records/snapshot_json.h"

namespace ridgepoint {
namespace {

SnapshotOrigin origin_of(const std::vector<nlohmann::json>& lines, OriginNames* names = nullptr,
                         const SnapshotReadOptions& options = {}) {
  SnapshotJson made;
  made.alloc(kSegmentBase, kMiB, stack_json(lines));
  const Snapshot snapshot = made.read(options);
  if (names != nullptr) *names = origin_names(snapshot, 1);
  return snapshot.origins.at(1);
}
OriginNames names_of(const std::vector<nlohmann::json>& lines) {
  OriginNames names;
  origin_of(lines, &names);
  return names;
}

TEST(stacks, the_line_of_the_program_is_shown_first_and_of_cpp_only_on_request) {
  const nlohmann::json native = frame_json("/pytorch/aten/src/ATen/EmptyTensor.cpp", 4, "at::empty_cuda");
  const nlohmann::json linear = frame_json("/torch/nn/functional.py", 100, "linear");
  const nlohmann::json extension = frame_json("/me/kernels.cpp", 7, "fused_step");
  const std::vector<nlohmann::json> lines = {native, frame_json("??", 0, "THPVariable_linear"), linear, extension,
                                             frame_json("/me/train.py", 12, "step")};
  OriginNames names = names_of(lines);
  EXPECT_EQ(names.name, "step (me/train.py:12)");
  EXPECT_EQ(names.library, "linear (nn/functional.py:100)");
  origin_of(lines, &names, {.shows_native = true});
  EXPECT_EQ(names.name, "step (me/train.py:12)");
  EXPECT_EQ(names.library, "at::empty_cuda (ATen/EmptyTensor.cpp:4)");
}

TEST(stacks, without_a_line_of_the_program_that_of_a_library_is_shown) {
  const nlohmann::json native = frame_json("/pytorch/aten/src/ATen/EmptyTensor.cpp", 4, "at::empty_cuda");
  const OriginNames names = names_of({native, frame_json("/torch/nn/functional.py", 100, "linear")});
  EXPECT_EQ(names.name, "linear (nn/functional.py:100)");
  EXPECT_EQ(names.library, "");
  EXPECT_EQ(names_of({native}).name, "at::empty_cuda (ATen/EmptyTensor.cpp:4)");
}

TEST(stacks, paths_of_windows_are_read_as_others) {
  const OriginNames names = names_of({frame_json(R"(C:\env\Lib\site-packages\torch\nn\functional.py)", 100, "linear"),
                                      frame_json(R"(C:\me\train.py)", 12, "step")});
  EXPECT_EQ(names.name, R"(step (me\train.py:12))");
  EXPECT_EQ(names.library, R"(linear (nn\functional.py:100))");
  EXPECT_TRUE(origin_of({frame_json(R"(C:\torch\optim\adamw.py)", 7, "step")}).in_optimizer);
}

TEST(stacks, forward_in_the_closure_of_an_optimizer_is_not_its_state) {
  const nlohmann::json step = frame_json("/torch/optim/lbfgs.py", 300, "step");
  EXPECT_FALSE(
      origin_of({frame_json("/me/net.py", 3, "forward"), frame_json("/me/train.py", 9, "closure"), step}).in_optimizer);
  EXPECT_FALSE(origin_of({frame_json("/torch/autograd/__init__.py", 3, "backward"), step}).in_optimizer);
  EXPECT_TRUE(origin_of({frame_json("/torch/_tensor.py", 3, "clone"), step}).in_optimizer);
}

// Two whole steps, and one whose forward runs out of memory; the exception frees what it held.
TEST(stacks, what_forward_holds_when_memory_runs_out_is_no_temporary) {
  SnapshotJson made;
  for (int i = 0; i < 3; ++i) {
    made.mark("step", true);
    for (int layer = 0; layer < 4; ++layer)
      made.alloc(kSegmentBase + static_cast<std::uint64_t>(layer) * kMiB, kMiB,
                 stack_json({frame_json("net.py", 3, "forward")}));
    if (i == 2) made.event("oom", 0, 40 * kMiB);
    for (int layer = 3; layer >= 0; --layer) made.free(kSegmentBase + static_cast<std::uint64_t>(layer) * kMiB, kMiB);
    if (i < 2) made.mark("step", false);
  }
  const MemoryReport report = made.report();
  ASSERT_EQ(report.out_of_memory.size(), 1u);
  EXPECT_EQ(report.out_of_memory[0].held.bytes_of("activation"), 4 * kMiB);
}

TEST(stacks, growth_is_shown_where_something_repeats) {
  const auto page = [](const SnapshotJson& made) {
    std::string text;
    const tables::SnapshotFileView file{"s.json", "JSON", {made.report()}};
    for (const tables::Table& table : tables::snapshot_page(file, 15, tables::Format::markdown).tables)
      text += table.title + '\n';
    return text;
  };
  SnapshotJson made;
  made.alloc(kSegmentBase, kMiB);
  EXPECT_THAT(page(made), Not(HasSubstr("Growth")));
  for (int i = 0; i < 2; ++i) {
    made.mark("step", true);
    made.alloc(kSegmentBase + 2 * kMiB, kMiB);
    made.free(kSegmentBase + 2 * kMiB, kMiB);
    made.mark("step", false);
  }
  EXPECT_THAT(page(made), HasSubstr("Growth between repetitions"));
}

}  // namespace
}  // namespace ridgepoint
