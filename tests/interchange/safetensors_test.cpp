#include "interchange/safetensors.h"

#include <cstring>
#include <initializer_list>

#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

HostTensor counting_tensor(DType dtype, const Shape& shape) {
  HostTensor tensor({dtype, shape});
  const auto limit = dtype == DType::boolean ? std::size_t{2} : std::size_t{251};
  for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = static_cast<std::byte>(i % limit);
  return tensor;
}

struct Named {
  std::string name;
  HostTensor tensor;
};

void write_all(const std::filesystem::path& path, const std::vector<Named>& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const Named& named : tensors) declarations.push_back({named.name, named.tensor.type});
  write_safetensors(path, declarations, [&](std::size_t i) { return tensors[i].tensor; });
}

std::filesystem::path write_raw(const TemporaryFolder& folder, std::uint64_t length, std::string_view rest) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  write_file(folder / "raw", bytes.append(rest));
  return folder / "raw";
}

TEST(Safetensors, every_dtype_and_shape_comes_back_as_it_went) {
  const TemporaryFolder folder;
  std::vector<Named> tensors;
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : std::initializer_list<Shape>{{}, {1}, {3}, {0}, {2, 0, 5}, {7, 3}, {1, 2, 1, 3, 1, 2}}) {
      tensors.push_back({std::string(name(dtype)) + shape.to_string(), counting_tensor(dtype, shape)});
    }
  }
  write_all(folder / "a", tensors);
  const SafetensorsFile file(folder / "a");
  EXPECT_EQ(file.names().size(), tensors.size());
  for (const Named& named : tensors) {
    EXPECT_EQ(file.type(named.name), named.tensor.type) << named.name;
    EXPECT_EQ(file.read(named.name).data, named.tensor.data) << named.name;
  }
}

TEST(Safetensors, names_may_be_any_utf8) {
  const TemporaryFolder folder;
  const std::vector<Named> tensors = {{"", counting_tensor(DType::fp32, {2})},
                                      {"layers.0.\"q\"\\\n", counting_tensor(DType::fp32, {3})},
                                      {"γ", counting_tensor(DType::fp32, {4})}};
  write_all(folder / "a", tensors);
  EXPECT_EQ(SafetensorsFile(folder / "a").read("γ").data, tensors[2].tensor.data);
  EXPECT_EQ(SafetensorsFile(folder / "a").read("").data, tensors[0].tensor.data);
}

TEST(Safetensors, every_tensor_lies_aligned_to_its_element) {
  const TemporaryFolder folder;
  write_all(folder / "a", {{"flag", counting_tensor(DType::boolean, {3})},
                           {"half", counting_tensor(DType::bf16, {3})},
                           {"wide", counting_tensor(DType::fp64, {3})},
                           {"single", counting_tensor(DType::fp32, {3})}});
  const std::uint64_t file_bytes = std::filesystem::file_size(folder / "a");
  const std::uint64_t data_begin = file_bytes - (3 * (8 + 4 + 2 + 1));
  const SafetensorsFile file(folder / "a");
  for (const SafetensorsEntry& entry : file.header().entries) {
    EXPECT_EQ((data_begin + entry.offset_bytes) % size_bytes(entry.type.dtype), 0u) << entry.name;
  }
}

TEST(Safetensors, metadata_comes_back) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> metadata = {{"format", "pt"}, {"seed", "7"}};
  write_safetensors(folder / "a", {}, {}, metadata);
  const SafetensorsFile file(folder / "a");
  EXPECT_EQ(file.header().metadata, metadata);
  EXPECT_TRUE(file.names().empty());
}

TEST(Safetensors, a_tensor_is_asked_for_once_and_let_go_before_the_next) {
  const TemporaryFolder folder;
  const std::vector<TensorDeclaration> declarations = {{"a", {DType::fp32, {2}}}, {"b", {DType::fp32, {2}}}};
  std::vector<std::size_t> asked;
  write_safetensors(folder / "a", declarations, [&](std::size_t i) {
    asked.push_back(i);
    return HostTensor(declarations[i].type);
  });
  EXPECT_THAT(asked, ElementsAre(0, 1));
}

TEST(Safetensors, a_failure_while_writing_leaves_no_file) {
  const TemporaryFolder folder;
  const std::vector<TensorDeclaration> declarations = {{"a", {DType::fp32, {2}}}};
  EXPECT_THAT(
      error_of([&] { write_safetensors(folder / "a", declarations, [](std::size_t) { return HostTensor(); }); }),
      AllOf(HasSubstr("'a'"), HasSubstr("fp32[2]")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, names_that_cannot_be_written_are_refused) {
  const TemporaryFolder folder;
  const HostTensor tensor = counting_tensor(DType::fp32, {1});
  EXPECT_THAT(error_of([&] { write_all(folder / "a", {{"x", tensor}, {"x", tensor}}); }), HasSubstr("'x'"));
  EXPECT_THAT(error_of([&] { write_all(folder / "a", {{"__metadata__", tensor}}); }), HasSubstr("reserves"));
  EXPECT_THAT(error_of([&] { write_all(folder / "a", {{"\xff", tensor}}); }), HasSubstr("UTF-8"));
}

TEST(Safetensors, a_missing_tensor_is_an_error_with_the_nearest_name) {
  const TemporaryFolder folder;
  write_all(folder / "a", {{"ln_final.weight", counting_tensor(DType::fp32, {1})},
                           {"lm_head.weight", counting_tensor(DType::fp32, {1})}});
  const SafetensorsFile file(folder / "a");
  EXPECT_FALSE(file.contains("ln_finale.weight"));
  EXPECT_THAT(error_of([&] { file.read("ln_finale.weight"); }), HasSubstr("'ln_final.weight'"));
}

TEST(Safetensors, a_truncated_file_is_refused_wherever_it_is_cut) {
  const TemporaryFolder folder;
  write_all(folder / "a", {{"x", counting_tensor(DType::fp32, {3})}, {"y", counting_tensor(DType::boolean, {1})}});
  const std::string whole = read_file(folder / "a", 10000);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(folder / "b", std::string_view(whole).substr(0, size));
    EXPECT_THROW(SafetensorsFile(folder / "b"), Error) << size;
  }
}

TEST(Safetensors, bytes_behind_the_last_tensor_are_refused) {
  const TemporaryFolder folder;
  write_all(folder / "a", {{"x", counting_tensor(DType::fp32, {3})}});
  write_file(folder / "b", read_file(folder / "a", 10000) + "x");
  EXPECT_THAT(error_of([&] { SafetensorsFile(folder / "b"); }), HasSubstr("1 more"));
}

TEST(Safetensors, a_header_length_beyond_the_file_is_refused_before_memory_is_taken) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { SafetensorsFile(write_raw(folder, 16'000'000, "{}")); }), HasSubstr("truncated"));
  EXPECT_THAT(error_of([&] { SafetensorsFile(write_raw(folder, UINT64_MAX, "{}")); }), HasSubstr("at most 16777216"));
}

TEST(Safetensors, a_bool_that_is_neither_0_nor_1_is_refused) {
  const TemporaryFolder folder;
  HostTensor tensor = counting_tensor(DType::boolean, {3});
  tensor.data[1] = std::byte{2};
  write_all(folder / "a", {{"mask", tensor}});
  EXPECT_THAT(error_of([&] { SafetensorsFile(folder / "a").read("mask"); }),
              AllOf(HasSubstr("'mask'"), HasSubstr("element 1 is 2")));
}

struct HostileHeader {
  const char* fact;
  std::string json;
  std::uint64_t data_bytes;
  const char* message;
};

std::string one_tensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return R"({"x":{"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) + R"(,"data_offsets":)" +
         std::string(offsets) + "}}";
}

std::string two_tensors(std::string_view first_offsets, std::string_view second_offsets) {
  return R"({"x":{"dtype":"F32","shape":[2],"data_offsets":)" + std::string(first_offsets) +
         R"(},"y":{"dtype":"F32","shape":[2],"data_offsets":)" + std::string(second_offsets) + "}}";
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const HostileHeader kHostileHeaders[] = {
    {"empty", "", 0, "not a JSON object"},
    {"byte_order_mark", "\xef\xbb\xbf{}", 0, "not a JSON object"},
    {"list_at_the_top", "[]", 0, "not a JSON object"},
    {"hidden_behind_a_nul", std::string("{}\0{", 4), 0, "not a JSON object"},
    {"unfinished", R"({"x")", 0, "not JSON"},
    {"followed_by_more", "{}{}", 0, "not JSON"},
    {"comment", "{/**/}", 0, "not JSON"},
    {"not_utf8", "{\"\xff\":1}", 0, "not JSON"},
    {"half_a_surrogate", R"({"\ud800":{}})", 0, "not JSON"},
    {"deep_nesting", repeated(R"({"a":)", 100'000), 0, "field 'a'"},
    {"deep_lists", R"({"x":{"shape":)" + repeated("[", 100'000), 0, "has a list where"},
    {"tensor_is_a_number", R"({"x":1})", 0, "'x' has a number where an object"},
    {"tensor_is_null", R"({"x":null})", 0, "'x' has null where an object"},
    {"missing_field", R"({"x":{"dtype":"F32","shape":[]}})", 0, "no data_offsets"},
    {"unknown_field", R"({"x":{"dtyp":"F32"}})", 0, "field 'dtyp'"},
    {"repeated_field", R"({"x":{"dtype":"F32","dtype":"F32"}})", 0, "'dtype' twice"},
    {"repeated_name", R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"x":{}})", 0, "'x' twice"},
    {"repeated_metadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
    {"repeated_metadata_key", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "'a' twice"},
    {"metadata_not_text", R"({"__metadata__":{"a":1}})", 0, "metadata has a number where a string"},
    {"metadata_is_a_list", R"({"__metadata__":[]})", 0, "metadata has a list where an object"},
    {"dtype_not_text", R"({"x":{"dtype":4}})", 0, "has a number where a string"},
    {"shape_not_a_list", R"({"x":{"shape":"4"}})", 0, "has a string where a list"},
    {"unknown_dtype", one_tensor("F8_E4M3", "[1]", "[0,1]"), 1, "dtype 'F8_E4M3'"},
    {"unsigned_words", one_tensor("U16", "[1]", "[0,2]"), 2, "dtype 'U16'"},
    {"negative_dimension", one_tensor("F32", "[-1]", "[0,4]"), 4, "negative"},
    {"fraction", one_tensor("F32", "[1.0]", "[0,4]"), 4, "not a 64-bit integer"},
    {"integer_past_64_bits", one_tensor("F32", "[18446744073709551616]", "[0,4]"), 4, "not a 64-bit integer"},
    {"dimension_past_63_bits", one_tensor("F32", "[18446744073709551615]", "[0,4]"), 4, "18446744073709551615"},
    {"product_past_64_bits", one_tensor("F32", "[4294967296,4294967296]", "[0,0]"), 0, "'x'"},
    {"bytes_past_64_bits", one_tensor("F64", "[4611686018427387904]", "[0,0]"), 0, "'x'"},
    {"overflow_hidden_by_a_zero", one_tensor("F32", "[4294967296,0,4294967296]", "[0,0]"), 0, "'x'"},
    {"rank_7", one_tensor("F32", "[1,1,1,1,1,1,1]", "[0,4]"), 4, "rank"},
    {"endless_shape", one_tensor("F32", "[" + repeated("1,", 100'000) + "1]", "[0,4]"), 4, "largest rank is 6"},
    {"one_offset", one_tensor("F32", "[1]", "[0]"), 4, "1 data_offsets"},
    {"three_offsets", one_tensor("F32", "[1]", "[0,4,4]"), 4, "3 data_offsets"},
    {"begin_past_end", one_tensor("F32", "[1]", "[4,0]"), 4, "data_offsets 4 and 0"},
    {"end_past_the_data", one_tensor("F32", "[2]", "[0,8]"), 4, "data_offsets 0 and 8, but the data has 4 bytes"},
    {"span_of_another_size", one_tensor("F32", "[2]", "[0,4]"), 4, "takes 8 bytes, but its data_offsets span 4"},
    {"hole_at_the_start", one_tensor("F32", "[1]", "[4,8]"), 8, "no tensor covers"},
    {"hole_in_the_middle", two_tensors("[0,8]", "[12,20]"), 20, "no tensor covers"},
    {"overlap", two_tensors("[0,8]", "[4,12]"), 12, "overlap"},
    {"same_place_twice", two_tensors("[0,8]", "[0,8]"), 8, "overlap"},
    {"data_without_a_tensor", "{}", 8, "8 more bytes follow"},
};

class HostileHeaderTest : public ::testing::TestWithParam<HostileHeader> {};

TEST_P(HostileHeaderTest, is_refused_with_the_rule_it_breaks) {
  const HostileHeader& hostile = GetParam();
  EXPECT_THAT(error_of([&] { parse_safetensors_header(hostile.json, hostile.data_bytes); }),
              HasSubstr(hostile.message));
}

INSTANTIATE_TEST_SUITE_P(Safetensors, HostileHeaderTest, ::testing::ValuesIn(kHostileHeaders),
                         [](const auto& test) { return std::string(test.param.fact); });

TEST(Safetensors, names_in_messages_cannot_drive_a_terminal_or_flood_it) {
  const std::string name = "\\u001b[2J" + repeated("n", 10'000);
  try {
    parse_safetensors_header("{\"" + name + "\":1}", 0);
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
    EXPECT_LT(message.size(), 300u);
  }
}

TEST(Safetensors, spaces_behind_the_header_and_empty_tensors_anywhere_are_allowed) {
  const std::string empty_between =
      R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"e":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}   )";
  const SafetensorsHeader header = parse_safetensors_header(empty_between, 8);
  ASSERT_EQ(header.entries.size(), 2u);
  EXPECT_EQ(header.entries[0].name, "e");
}

}  // namespace
}  // namespace ridgepoint
