#include "interchange/snapshot/reader/read_snapshot.h"

#include <zlib.h>

#include "interchange/snapshot/pickle_bytes.h"
#include "interchange/snapshot/reader/collector.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/snapshot_json.h"

namespace ridgepoint {
namespace {

using namespace pickle_bytes;  // NOLINT(google-build-using-namespace)

Snapshot read(std::string_view bytes) {
  const TemporaryFolder folder;
  write_file(folder / "s", bytes);
  return read_snapshot(folder / "s");
}

std::string gzip(const std::string& bytes) {
  std::string packed(bytes.size() + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string input = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string three_events() {
  return event("segment_alloc", 512, 4096) + event("alloc", 512, 100) + event("free_requested", 512, 100);
}

TEST(ReadSnapshot, reads_a_pickle_and_the_same_in_gzip_in_one_or_several_members) {
  const std::string plain = snapshot(three_events());
  EXPECT_EQ(read(plain).format, "pickle, protocol 4");
  EXPECT_EQ(read(gzip(plain)).format, "pickle, protocol 4, gzip");
  const std::string members = gzip(plain.substr(0, 50)) + gzip(plain.substr(50)) + std::string(100, '\0');
  for (const std::string& bytes : {plain, gzip(plain), members}) {
    const Snapshot found = read(bytes);
    ASSERT_THAT(found.histories, SizeIs(1));
    EXPECT_EQ(found.histories[0].size(), 3u);
    EXPECT_EQ(found.histories[0].address(0), 512u);
  }
}

TEST(ReadSnapshot, reads_json_with_or_without_white_space_and_a_byte_order_mark) {
  SnapshotJson json;
  json.alloc(kSegmentBase, 512);
  const std::string text = json.document().dump(2);
  for (const std::string& begin : {std::string(), std::string("\n  "), std::string("\xef\xbb\xbf")}) {
    const Snapshot found = read(begin + text);
    EXPECT_EQ(found.format, "JSON");
    EXPECT_EQ(found.histories.at(0).size(), 1u);
  }
}

TEST(ReadSnapshot, an_appends_of_very_many_items_needs_no_memory_for_them) {
  const std::string first = dict(text("action") + kMemoize + text("alloc") + kMemoize + text("addr") + kMemoize +
                                 integer(512) + text("size") + kMemoize + integer(100));
  const std::string later = dict(get(0) + get(1) + get(2) + "K\x05" + get(3) + "K\x64");
  EXPECT_EQ(read(snapshot(first + repeated(later, 300'000))).histories.at(0).size(), 300'001u);
}

TEST(ReadSnapshot, a_container_may_be_a_list_or_dict_opcode_or_get_its_items_one_by_one) {
  const std::string entry =
      kMark + text("action") + text("alloc") + text("addr") + integer(1) + text("size") + integer(2) + "d";
  const std::string single = kEmptyDict + text("action") + text("alloc") + kSetItem + text("addr") + integer(1) +
                             kSetItem + text("size") + integer(2) + kSetItem;
  const std::string traces = kMark + kMark + entry + single + "l" + "l";
  const std::string bytes =
      begin() + kMark + text("device_traces") + traces + text("segments") + kEmptyList + "d" + kStop;
  EXPECT_EQ(read(bytes).histories.at(0).size(), 2u);
}

TEST(ReadSnapshot, reads_integers_of_every_form_and_leaves_out_what_a_snapshot_does_not_have) {
  const auto with_size = [](const std::string& size) {
    return dict(text("action") + text("alloc") + text("addr") + integer(1) + text("size") + size);
  };
  const std::string forms =
      with_size("K\x07") + with_size("M\x07" + std::string(1, '\0')) + with_size("J\x07" + std::string(3, '\0')) +
      with_size("\x8a\x01\x07") + with_size("\x8a\x09\x07" + std::string(8, '\0')) +
      with_size("\x8b" + little(2, 4) + "\x07" + std::string(1, '\0')) + with_size("G\x40\x1c" + std::string(6, '\0'));
  const std::string extra = text("b") + "C\x02xx" + text("n") + "N" + text("t") + "\x88" + text("v") +
                            "(K\x01K\x02K\x03K\x04t" + text("w") +
                            "K\x01"
                            "0"
                            ")" +
                            text("x") + "\x96" + little(3, 8) + "abc";
  const Snapshot found = read(snapshot(forms, extra));
  const MemoryHistory& history = found.histories.at(0);
  EXPECT_EQ(history.size(), 7u);
  EXPECT_EQ(history.request_count(), 1u) << "all sizes are 7";
}

TEST(ReadSnapshot, frames_that_many_entries_share_are_stored_once) {
  const std::string frame = dict(text("filename") + text("a.py") + text("line") + "K\x05" + text("name") + text("f"));
  const std::string first = kEmptyDict + kMark + text("action") + text("alloc") + text("addr") + integer(1) +
                            text("size") + integer(2) + text("frames") + list(frame + kMemoize) + kMemoize + kSetItems;
  const std::string second = dict(text("action") + text("alloc") + text("addr") + integer(3) + text("size") +
                                  integer(2) + text("frames") + get(1));
  const std::string third = dict(text("action") + text("alloc") + text("addr") + integer(3) + text("size") +
                                 integer(2) + text("frames") + list(get(0) + get(0)));
  const Snapshot found = read(snapshot(first + second + third));
  EXPECT_THAT(found.frames, SizeIs(1));
  EXPECT_THAT(found.origins, SizeIs(2));
  found.histories.at(0).walk([&](std::size_t, const MemoryHistory::Event& event) {
    EXPECT_EQ(found.histories[0].request(event.request).origin, 1u);
  });
}

TEST(ReadSnapshot, an_event_and_a_history_may_be_named_again) {
  const std::string timed = dict(text("action") + text("alloc") + text("addr") + integer(3) + text("size") +
                                 integer(2) + text("time_us") + integer(1000));
  const std::string later =
      dict(text("action") + text("oom") + text("size") + integer(2) + text("time_us") + integer(2000));
  const std::string trace = list(timed + kMemoize + later + get(0));
  const Snapshot found = read(begin() + dict(text("device_traces") + list(trace + kMemoize + get(1))) + kStop);
  ASSERT_THAT(found.histories, SizeIs(2));
  for (const MemoryHistory& history : found.histories) {
    ASSERT_EQ(history.size(), 3u);
    EXPECT_EQ(history.added_event(2).time_us, 1000);
    EXPECT_EQ(history.address(history.added_event(2).place), 3u);
    EXPECT_EQ(history.added_event(2).kind, MemoryEventKind::alloc);
  }
}

TEST(ReadSnapshot, a_history_without_events_takes_the_place_of_its_device) {
  const Snapshot found =
      read(begin() + dict(text("device_traces") + list(kEmptyList + list(three_events()) + kEmptyList)) + kStop);
  ASSERT_THAT(found.histories, SizeIs(3));
  EXPECT_EQ(found.histories[0].size(), 0u);
  EXPECT_EQ(found.histories[1].size(), 3u);
}

TEST(ReadSnapshot, histories_of_a_snapshot_in_another_field_are_no_devices) {
  const std::string inner = dict(text("device_traces") + list(list(three_events())));
  EXPECT_THAT(read(snapshot(three_events(), text("x") + inner)).histories, SizeIs(1));
}

TEST(ReadSnapshot, segments_are_in_the_order_of_their_devices) {
  const auto segment = [](int device) {
    return dict(text("device") + 'K' + static_cast<char>(device) + text("address") + integer(512) + text("total_size") +
                integer(512));
  };
  const Snapshot found = read(begin() + dict(text("segments") + list(segment(2) + segment(0) + segment(2))) + kStop);
  std::vector<std::int64_t> devices;
  for (const SnapshotSegment& each : found.segments) devices.push_back(each.device);
  EXPECT_THAT(devices, ElementsAre(0, 2, 2));
}

// A million frames in a file of this one's size would take minutes if each searched the text.
TEST(ReadSnapshot, a_long_text_is_searched_once_and_its_first_1024_bytes_are_kept) {
  std::string name(1023, 'x');
  name += "\xc3\xa4" + std::string(500'000, 'y');
  std::string frames = 'X' + little(name.size(), 4) + name + kMemoize + "0" + text("line") + kMemoize + "0" +
                       text("name") + kMemoize + "0";
  for (int line = 0; line < 50'000; ++line) {
    frames += dict(get(1) + 'J' + little(static_cast<std::uint64_t>(line), 4) + get(2) + get(0));
  }
  const Snapshot found = read(begin() + dict(text("x") + list(frames) + text("segments") + kEmptyList) + kStop);
  ASSERT_THAT(found.frames, SizeIs(50'000));
  EXPECT_EQ(found.texts[found.frames.back().name], std::string(1023, 'x'));
}

TEST(ReadSnapshot, an_empty_list_of_frames_may_be_shared_with_what_is_not_complete) {
  const std::string block =
      dict(text("size") + integer(512) + text("state") + text("inactive") + text("frames") + get(0));
  const std::string segment = dict(text("address") + integer(512) + text("total_size") + integer(512) + text("frames") +
                                   kEmptyList + kMemoize + text("blocks") + list(block));
  const Snapshot found = read(begin() + dict(text("segments") + list(segment)) + kStop);
  ASSERT_THAT(found.segments, SizeIs(1));
  EXPECT_THAT(found.segments[0].blocks, SizeIs(1));
}

TEST(ReadSnapshot, hidden_frames_do_not_name_an_origin_and_the_caller_is_outside_of_the_framework) {
  SnapshotJson json;
  json.alloc(kSegmentBase, 512,
             {frame_json("x.c", 1, "_start"), frame_json("x.c", 1, "PyEval_EvalCode"),
              frame_json("/lib/python3/site-packages/torch/nn/functional.py", 7, "linear"),
              frame_json("/home/me/train.py", 3, "step")});
  const Snapshot found = json.read();
  ASSERT_THAT(found.origins, SizeIs(2));
  EXPECT_EQ(found.texts[found.frames[found.origins[1].frame].name], "linear");
  EXPECT_EQ(found.texts[found.frames[found.origins[1].caller].name], "step");
}

TEST(ReadSnapshot, unknown_fields_and_actions_and_incomplete_entries_are_counted_and_left_out) {
  SnapshotJson json;
  json.event("teleport", 1, 2);
  json.event("teleport", 1, 2);
  json.event("alloc", 1, 2)["colour"] = "red";
  json.event("alloc", 1, 2).erase("size");
  json.event("alloc", 1, 2)["size"] = -5;
  json.event("alloc", 1, 2)["frames"] = nullptr;
  const Snapshot found = json.read();
  EXPECT_EQ(found.histories.at(0).size(), 2u);
  EXPECT_EQ(found.omissions.unknown_actions.at("teleport"), 2u);
  EXPECT_EQ(found.omissions.unknown_fields.at("colour"), 1u);
  EXPECT_EQ(found.omissions.incomplete_entries, 2u);
}

TEST(ReadSnapshot, a_state_between_events_is_no_event_and_ours_say_what_counts_and_their_phases) {
  SnapshotJson json;
  json.event("snapshot", 0, 0);
  json.event("alloc", 1, 2, {frame_json("a.py", 1, "matmul of layers.0")})["user_metadata"] =
      "iteration 3, phase: backward, category: gradient, formula: 4 D F";
  json.settings = {{"PYTORCH_CUDA_ALLOC_CONF", ""}, {"ridgepoint_counted_from_us", 5}, {"ridgepoint_has_clock", false}};
  const Snapshot found = json.read();
  EXPECT_EQ(found.histories.at(0).size(), 1u);
  EXPECT_EQ(found.settings.counted_from_us, 5);
  EXPECT_FALSE(found.settings.has_clock);
  const SnapshotOrigin& origin = found.origins.at(found.histories[0].request(0).origin);
  EXPECT_EQ(found.texts[origin.phase], "backward");
  EXPECT_EQ(found.texts[origin.formula], "4 D F");
  EXPECT_TRUE(SnapshotJson().read().settings.has_clock);
}

// PyTorch's pickles name a pool as a tuple of two numbers, and one that occurs again by a reference.
TEST(ReadSnapshot, streams_are_apart_and_so_are_the_pools_of_captured_graphs) {
  const std::string tuple = "\x86";
  const auto in_pool = [](std::uint64_t stream, const std::string& pool) {
    return dict(text("action") + text("alloc") + text("addr") + integer(512) + text("size") + integer(100) +
                text("stream") + integer(stream) + text("pool_id") + pool);
  };
  const std::string none = integer(0) + integer(0) + tuple, graph = integer(0) + integer(3) + tuple;
  const Snapshot found = read(snapshot(in_pool(0, none + kMemoize) + in_pool(0, graph + kMemoize) + in_pool(7, get(0)) +
                                       in_pool(0, get(1)) + in_pool(0, integer(3) + integer(0) + tuple)));
  std::vector<std::uint16_t> streams;
  found.histories.at(0).walk([&](std::size_t, const MemoryHistory::Event& event) {
    streams.push_back(found.histories[0].request(event.request).stream);
  });
  EXPECT_THAT(streams, ElementsAre(0, 1, 2, 1, 3));
  EXPECT_FALSE(found.streams.at(0).is_private());
  EXPECT_TRUE(found.streams.at(1).is_private());
  EXPECT_FALSE(found.streams.at(2).is_private());
  EXPECT_EQ(found.streams.at(2).stream, 7);
  EXPECT_NE(found.streams.at(3).pool, found.streams.at(1).pool);
}

TEST(ReadSnapshot, more_streams_than_a_program_has_are_refused) {
  SnapshotJson json;
  for (int stream = 0; stream < 5000; ++stream) json.event("alloc", 512, 100)["stream"] = stream;
  EXPECT_THAT(error_of([&] { json.read(); }), HasSubstr("more than 4096 streams"));
}

TEST(ReadSnapshot, an_old_list_of_segments_has_sizes_and_frames_in_its_block_history) {
  const nlohmann::json frames = nlohmann::json::array({frame_json("a.py", 1, "f")});
  const nlohmann::json history = nlohmann::json::array({{{"addr", 512}, {"real_size", 700}, {"frames", frames}}});
  const nlohmann::json blocks = nlohmann::json::array(
      {{{"size", 1024}, {"state", "active_allocated"}, {"history", history}}, {{"size", 1024}, {"state", "inactive"}}});
  const nlohmann::json segments = nlohmann::json::array(
      {{{"device", 0}, {"address", 512}, {"total_size", 2048}, {"segment_type", "small"}, {"blocks", blocks}}});
  const Snapshot found = read(segments.dump());
  EXPECT_TRUE(found.is_segment_list);
  ASSERT_THAT(found.segments, SizeIs(1));
  ASSERT_THAT(found.segments[0].blocks, SizeIs(2));
  EXPECT_EQ(found.segments[0].blocks[0].requested_bytes, 700u);
  EXPECT_NE(found.segments[0].blocks[0].origin, kNoOrigin);
  EXPECT_EQ(found.segments[0].blocks[1].address, 512u + 1024);
}

TEST(ReadSnapshot, a_missing_requested_size_is_the_size_and_counted) {
  SnapshotJson json;
  nlohmann::json& segment = json.segment(kSegmentBase, 2 * kMiB);
  SnapshotJson::live(segment, kSegmentBase, 1024);
  segment["blocks"][0].erase("requested_size");
  const Snapshot found = json.read();
  EXPECT_EQ(found.segments.at(0).blocks.at(0).requested_bytes, 1024u);
  EXPECT_EQ(found.omissions.blocks_without_requested_size, 1u);
}

TEST(ReadSnapshot, a_size_that_is_no_number_is_counted_and_left_out) {
  const std::string nan = "G\x7f\xf8" + std::string(6, '\0');
  const std::string bad = dict(text("action") + text("alloc") + text("addr") + integer(1) + text("size") + nan);
  const Snapshot found = read(snapshot(bad + event("alloc", 1, 2)));
  EXPECT_EQ(found.histories.at(0).size(), 1u);
  EXPECT_EQ(found.omissions.incomplete_entries, 1u);
}

TEST(ReadSnapshot, blocks_that_overlap_are_refused) {
  SnapshotJson json;
  nlohmann::json& segment = json.segment(kSegmentBase, 2 * kMiB);
  SnapshotJson::live(segment, kSegmentBase, 1024);
  SnapshotJson::live(segment, kSegmentBase + 512, 1024);
  EXPECT_THAT(error_of([&] { json.read(); }), HasSubstr("two blocks of its segment at address"));
}

TEST(ReadSnapshot, a_truncated_pickle_json_or_gzip_is_refused_wherever_it_ends) {
  SnapshotJson json;
  json.alloc(kSegmentBase, 512, {frame_json("a.py", 1, "f")});
  for (const std::string& whole : {snapshot(three_events()), json.document().dump(), gzip(snapshot(three_events()))}) {
    for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_THROW(read(whole.substr(0, size)), Error) << size;
    EXPECT_NO_THROW(read(whole));
  }
}

TEST(ReadSnapshot, damaged_gzip_data_is_refused_with_its_place) {
  std::string packed = gzip(snapshot(three_events() + repeated(event("alloc", 77, 88), 50)));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 0x55);  // the checksum
  EXPECT_THAT(error_of([&] { read(packed); }), AllOf(HasSubstr("gzip"), HasSubstr("near byte")));
}

struct Hostile {
  const char* fact;
  std::string bytes;
  const char* message;
};

const std::string kSegment = dict(text("address") + integer(512) + text("total_size") + integer(512));

const Hostile kHostile[] = {
    {"empty", "", "it is empty"},
    {"text", "hello", "neither a pickle"},
    {"protocol_0", "(dp0\n.", "neither a pickle"},
    {"protocol_6", begin(6) + "N.", "protocol is 6"},
    {"zip_of_torch_save", "PK\x03\x04", "neither a pickle"},
    {"global", begin() + "cos\nsystem\n(S'true'\ntR.", "at byte 2: the opcode GLOBAL imports or calls"},
    {"stack_global", begin() + text("os") + text("system") + "\x93.", "STACK_GLOBAL"},
    {"reduce", begin() + kEmptyList + ")R.", "the opcode REDUCE"},
    {"build", begin() + kEmptyDict + kEmptyDict + "b.", "the opcode BUILD"},
    {"inst", begin() + "(ios\nsystem\n.", "the opcode INST"},
    {"obj", begin() + "(o.", "the opcode OBJ"},
    {"newobj", begin() + "\x81.", "the opcode NEWOBJ"},
    {"persistent_id",
     begin() + "N"
               "Q.",
     "the opcode BINPERSID"},
    {"extension", begin() + "\x82\x01.", "the opcode EXT1"},
    {"out_of_band_buffer", begin(5) + "\x97.", "the opcode NEXT_BUFFER"},
    {"dup", begin() + kEmptyList + "2.", "the opcode DUP does not occur"},
    {"no_opcode", begin() + "\xff.", "0xff is no opcode"},
    {"no_value", begin() + kStop, "STOP leaves 0 values"},
    {"two_values", begin() + "NN.", "STOP leaves 2 values"},
    {"open_mark", begin() + kEmptyList + kMark + kStop, "STOP leaves 1"},
    {"list_in_itself", begin() + kEmptyList + kMemoize + get(0) + kAppend + kStop, "cyclic"},
    {"list_in_itself_at_once", begin() + kEmptyList + kMemoize + kMark + get(0) + kAppends + kStop, "cyclic"},
    {"dict_in_itself", begin() + kEmptyDict + kMemoize + text("a") + get(0) + kSetItem + kStop, "cyclic"},
    {"cycle_of_two", begin() + kEmptyList + kMemoize + kMark + dict(text("frames") + get(0)) + kAppends + kStop,
     "cyclic"},
    {"segment_twice", begin() + dict(text("segments") + list(kSegment + kMemoize + get(0))) + kStop, "a second time"},
    {"reference_to_nothing", begin() + get(3) + kStop, "names nothing"},
    {"reference_out_of_range", begin() + "Nr\xff\xff\xff\xff.", "out of range"},
    {"append_to_a_number", begin() + "K\x01K\x02" + kAppend + kStop, "not a list"},
    {"appends_without_mark", begin() + kEmptyList + kAppends + kStop, "needs a MARK"},
    {"key_without_value", begin() + kEmptyDict + kMark + text("a") + kSetItems + kStop, "key without a value"},
    {"list_as_key", begin() + dict(kEmptyList + "N") + kStop, "a key is a list"},
    {"pop_of_nothing", begin() + "0.", "not there"},
    {"memoize_of_nothing", begin() + kMemoize + kStop, "not there"},
    {"deep_lists", begin() + repeated(kEmptyList, 100'000) + kStop, "in one another"},
    {"deep_lists_with_marks", begin() + repeated("](", 100'000) + kStop, "in one another"},
    {"deep_dicts", begin() + repeated("}(K\x01", 100'000) + kStop, "in one another"},
    {"deep_json", repeated("[", 100'000), "in one another"},
    {"huge_string", begin() + "X" + little(0xffffffff, 4), "a string has 4294967295 bytes"},
    {"huge_string_8", begin() + "\x8d" + little(UINT64_MAX, 8), "at most 1048576"},
    {"huge_bytes", begin() + "\x8e" + little(UINT64_MAX, 8), "middle of bytes"},
    {"huge_integer", begin() + "\x8b" + little(0xffffffff, 4), "does not fit in 64 bits"},
    {"only_a_number", begin() + "K\x01.", "it is a number, not a memory snapshot"},
    {"other_dictionary", R"({"a": 1})", "a dictionary with other fields"},
    {"other_list", "[1, 2]", "not a memory snapshot"},
    {"list_of_events", begin() + list(event("alloc", 1, 2)) + kStop, "it is a list of events"},
    {"traces_not_a_list", R"({"segments": [], "device_traces": 5})", "'device_traces' is not"},
    {"segments_not_a_list", R"({"segments": {}, "device_traces": []})", "'segments' is not"},
    {"not_json", R"({"segments": [}, )", "the error is at byte"},
    {"followed_by_more", R"({"segments": []} x)", "the error is at byte"},
    {"half_a_byte_order_mark", "\xef\xbb", "neither a pickle"},
};

class HostileSnapshot : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileSnapshot, is_refused_with_the_reason) {
  EXPECT_THAT(error_of([&] { read(GetParam().bytes); }), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(ReadSnapshot, HostileSnapshot, ::testing::ValuesIn(kHostile),
                         [](const auto& test) { return std::string(test.param.fact); });

// Not among the others, because every test of this program would begin by making these megabytes.
TEST(ReadSnapshot, megabytes_of_one_value_are_refused_with_the_reason) {
  EXPECT_THAT(error_of([] { read("[\"" + repeated("x", 9'000'000) + "\"]"); }), HasSubstr("longer than"));
  EXPECT_THAT(error_of([] { read(begin() + kMark + repeated("K\x01", 5'000'000)); }),
              HasSubstr("wait for their container"));
}

constexpr int kMaxEntries = SnapshotCollector::kMaxEntries;
constexpr int kMaxDevices = SnapshotCollector::kMaxDevices;

void expect_refused(const std::string& bytes, const std::string& message) {
  EXPECT_THAT(error_of([&] { read(bytes); }), HasSubstr(message));
}

// A history of `events` events that all devices share.
std::string shared_history(int events) {
  return text("device_traces") +
         list(list(repeated(event("alloc", 1, 2), events)) + kMemoize + repeated(get(0), kMaxDevices - 1));
}

TEST(ReadSnapshot, an_event_that_is_named_very_often_is_refused) {
  expect_refused(snapshot(event("alloc", 1, 2) + kMemoize + repeated(get(0), kMaxEntries)),
                 "it has more than 16777216 events, blocks and segments");
}

TEST(ReadSnapshot, a_history_that_devices_share_counts_for_each) {
  expect_refused(
      begin() + dict(shared_history(kMaxEntries / kMaxDevices)) + kStop,
      "more than 16777216 events, blocks and segments (a history that several devices share counts for each");
}

TEST(ReadSnapshot, very_many_lists_of_empty_histories_are_refused) {
  const std::string empty_histories = list(repeated(kEmptyList, 1000)) + kAppend;
  expect_refused(begin() + kEmptyList + repeated(empty_histories, kMaxEntries / 1000 + 1) + kStop,
                 "more than 16777216 events");
}

TEST(ReadSnapshot, more_histories_than_devices_are_refused) {
  expect_refused(begin() + list(repeated(dict(text("x") + list(event("alloc", 1, 2))), kMaxDevices + 1)) + kStop,
                 "more than 1024 histories");
}

TEST(ReadSnapshot, an_annotation_without_a_device_counts_for_each) {
  const std::string mark = dict(text("name") + text("a") + text("stage") + text("START") + text("time_us") + "K\x01");
  const auto with_marks = [&](int count) {
    return begin() + dict(shared_history(1) + text("external_annotations") + list(repeated(mark, count))) + kStop;
  };
  EXPECT_THAT(read(with_marks(1024)).annotations, SizeIs(1024));
  expect_refused(with_marks(1025), "more than 1048576 annotations (one that names no device counts for each)");
}

TEST(ReadSnapshot, very_many_different_stacks_are_refused) {
  std::string stacks = text("filename") + kMemoize + "0";
  for (std::uint64_t line = 0; line < SnapshotCollector::kMaxOrigins; ++line) {
    stacks += list(dict(get(0) + get(0) + text("line") + 'J' + little(line, 4))) + kAppend;
  }
  expect_refused(begin() + kEmptyList + stacks + kStop, "more than 262144 pairs of lines");
}

TEST(ReadSnapshot, a_file_that_is_missing_or_a_folder_is_refused_by_its_name) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { read_snapshot(folder / "none"); }), HasSubstr((folder / "none").string()));
  EXPECT_THAT(error_of([&] { read_snapshot(folder.path()); }), HasSubstr("a folder"));
}

TEST(ReadSnapshot, says_how_far_it_is) {
  const TemporaryFolder folder;
  write_file(folder / "s", snapshot(repeated(event("alloc", 1, 2), 100'000)));
  std::vector<double> shares;
  read_snapshot(folder / "s", [&](double share) { shares.push_back(share); });
  ASSERT_GT(shares.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(shares));
  EXPECT_EQ(shares.back(), 1.0);
}

TEST(ReadSnapshot, may_be_stopped_while_a_small_file_gives_a_large_document) {
  const TemporaryFolder folder;
  const std::string document = snapshot(event("alloc", 1, 2) + kMemoize + repeated(get(0), 4'000'000));
  write_file(folder / "s", gzip(document));
  std::size_t calls = 0;
  read_snapshot(folder / "s", [&](double) { ++calls; });
  EXPECT_GE(calls, document.size() >> 20);
}

}  // namespace
}  // namespace ridgepoint
