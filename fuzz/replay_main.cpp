// Runs a fuzz target on every file of the given folders, whole and truncated at every eighth of its length. Exits with
// 1 if there is no file; a failure in the target ends the process as under the fuzzer.
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
    // A copy of exactly this size, so that a sanitizer detects a read beyond its end.
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
