// Runs a fuzz target over every file of the folders given as arguments, each whole and cut at every eighth of its
// length. Exits 1 when there was no file at all; a fault in the target ends the process as it would under the fuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void replay(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  for (std::size_t eighth = 0; eighth <= 8; ++eighth) {
    // A copy of exactly this size, so that a sanitizer sees a read past its end.
    const std::vector<std::uint8_t> bytes(text.begin(),
                                          text.begin() + static_cast<std::ptrdiff_t>(text.size() * eighth / 8));
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      replay(entry.path());
      ++files;
    }
  }
  std::printf("%d inputs\n", files);
  return files > 0 ? 0 : 1;
}
