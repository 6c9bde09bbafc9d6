#include "interchange/huggingface/weights/tensor_files.h"

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

void write_one(const std::filesystem::path& path, const std::string& name, float value) {
  const TensorDeclaration declaration{name, {DType::fp32, Shape{1}}};
  write_safetensors(path, std::span(&declaration, 1), [&](std::size_t) {
    HostTensor tensor(declaration.type);
    tensor.as<float>()[0] = value;
    return tensor;
  });
}

class TensorFilesTest : public ::testing::Test {
 protected:
  void expect_refused(const std::string& index, const std::string& why) {
    write_file(folder_ / "model.safetensors.index.json", index);
    EXPECT_THAT(error_of([&] { TensorFiles{folder_.path()}; }), HasSubstr(why)) << index;
  }
  TemporaryFolder folder_;
};

TEST_F(TensorFilesTest, are_the_shards_of_an_index) {
  write_one(folder_ / "a.safetensors", "x", 1);
  write_one(folder_ / "b.safetensors", "y", 2);
  write_file(folder_ / "model.safetensors.index.json",
             R"({"metadata": {}, "weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})");
  for (const auto& path : {folder_.path(), folder_ / "model.safetensors.index.json"}) {
    const TensorFiles files(path);
    EXPECT_THAT(files.names(), ElementsAre("x", "y"));
    EXPECT_EQ(files.read("y").as<float>()[0], 2);
    EXPECT_THROW(files.read("z"), Error);
  }
}

TEST_F(TensorFilesTest, are_one_file_without_an_index) {
  write_one(folder_ / "model.safetensors", "x", 1);
  EXPECT_EQ(TensorFiles(folder_.path()).read("x").as<float>()[0], 1);
}

TEST_F(TensorFilesTest, of_an_index_that_points_outside_its_folder_are_refused) {
  for (const char* name : {"../a.safetensors", "/etc/passwd", "sub/a.safetensors", "..", "", "a\\\\b", "a\\u0000"})
    expect_refused(std::string(R"({"weight_map": {"x": ")") + name + "\"}}", "is outside the folder of the index");
}

TEST_F(TensorFilesTest, with_a_missing_shard_are_refused) {
  expect_refused(R"({"weight_map": {"x": "model-00001-of-00002.safetensors"}})",
                 "names the file 'model-00001-of-00002.safetensors', which is missing");
}

TEST_F(TensorFilesTest, whose_shard_lacks_a_tensor_are_refused) {
  write_one(folder_ / "a.safetensors", "x", 1);
  expect_refused(R"({"weight_map": {"y": "a.safetensors"}})", "tensor 'y' is in 'a.safetensors', which lacks it");
}

TEST_F(TensorFilesTest, whose_shard_has_a_tensor_too_many_are_refused) {
  const TensorDeclaration two[] = {{"x", {DType::fp32, Shape{1}}}, {"y", {DType::fp32, Shape{1}}}};
  write_safetensors(folder_ / "a.safetensors", two, [&](std::size_t i) { return HostTensor(two[i].type); });
  expect_refused(R"({"weight_map": {"x": "a.safetensors"}})", "has the tensor 'y', which the weight_map");
}

TEST_F(TensorFilesTest, with_a_malformed_index_are_refused) {
  expect_refused(R"({"weight_map": {}})", "no weight_map");
  expect_refused(R"({"metadata": {}})", "no weight_map");
  expect_refused(R"({"weight_map": {"x": 3}})", "is no string");
  expect_refused("[", "is not JSON");
  expect_refused("{\"a\": " + std::string(1000, '['), "nested deeper");
}

TEST_F(TensorFilesTest, that_are_not_there_are_refused_with_a_word_on_pickles) {
  EXPECT_THAT(error_of([&] { TensorFiles{folder_.path()}; }), HasSubstr("has neither model.safetensors"));
  write_file(folder_ / "pytorch_model.bin", "");
  EXPECT_THAT(error_of([&] { TensorFiles{folder_.path()}; }), HasSubstr("pytorch_model.bin is not read"));
}

}  // namespace
}  // namespace ridgepoint
