// Transfers from and to a file on the fake GPU, whose streams and graphs run copies and functions of the host in order.
#include "backends/cuda/transfer.h"

#include <cstdint>
#include <string>

#include "backends/cuda/fake/on_fake_card.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/swap_in_file.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::counting_from;
using testing::swapping_program;

constexpr std::int64_t kElements = 5'500'001;  // two pieces of the file and a part, and no whole blocks

struct FileTransferOnFakeCard : testing::OnFakeCard {
  static int captured_runs() { return fake_count("fake_card_captured_runs"); }
};

TEST_F(FileTransferOnFakeCard, reads_ahead_of_copies_and_writes_behind_them_in_a_captured_run_too) {
  on_fake_card([] {
    const TemporaryFolder folder;
    Program program = swapping_program("cuda", folder.path().string(), kElements, Compile::full);
    const HostTensor a = counting_from(1, kElements), b = counting_from(0.5, kElements);
    program.write_input("a", a);
    program.write_input("b", b);
    for (const int captured : {0, 1, 2, 3, 4}) {
      program.run();
      EXPECT_EQ(captured_runs(), captured);
      EXPECT_EQ(program.read_input("a").data, captured % 2 == 0 ? b.data : a.data);
      EXPECT_EQ(program.read_input("b").data, captured % 2 == 0 ? a.data : b.data);
    }
  });
}

TEST_F(FileTransferOnFakeCard, ends_a_captured_run_that_cannot_write) {
  on_fake_card([] {
    const TemporaryFolder folder;
    Program program = swapping_program("cuda", folder.path().string(), kElements, Compile::full);
    for (int run = 0; run < 3; ++run) program.run();
    program.synchronize();
    const testing::FullDisk full(1 << 20);
    program.run();
    const auto says_so = ThrowsMessage<Error>(HasSubstr("cannot write to the file in '" + folder.path().string()));
    EXPECT_THAT([&] { program.synchronize(); }, says_so);
    EXPECT_THAT([&] { program.run(); }, says_so);
  });
}

}  // namespace
}  // namespace ridgepoint
