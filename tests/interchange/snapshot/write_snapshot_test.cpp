#include "interchange/snapshot/write_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "inspect/snapshot/analyse_snapshot.h"
#include "interchange/snapshot/reader/read_snapshot.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

using Document = SnapshotDocument;

constexpr std::uint64_t kBase = 0x7f1234500000;
constexpr std::int64_t kBegin = 1'700'000'000'000'000;

// Two devices; on the first a parameter stays and `temporaries` come and go.
Document small_document(int temporaries) {
  Document document;
  document.frames = {{"src/models/transformer.cpp", 42, "layers.0.ffn.w1"}, {"src/models/transformer.cpp", 7, "model"}};
  document.stacks = {{0, 1}, {1}};
  document.devices.resize(2);
  Document::Device& device = document.devices[0];
  std::int64_t time = kBegin;
  const auto event = [&](SnapshotAction action, std::uint64_t address, std::uint64_t size, std::string category) {
    Document::Event entry{.action = action, .address = address, .size_bytes = size, .time_us = time += 5, .stack = 0};
    if (action == SnapshotAction::alloc) entry.block_bytes = (size + 511) / 512 * 512;
    entry.category = std::move(category);
    device.events.push_back(entry);
  };
  event(SnapshotAction::segment_alloc, kBase, 20 << 20, "");
  event(SnapshotAction::alloc, kBase, 1000, "parameter");
  document.annotations.push_back({"forward", true, 0, time + 1});
  for (int i = 0; i < temporaries; ++i) {
    event(SnapshotAction::alloc, kBase + 1024, 5000, "temporary");
    event(SnapshotAction::free, kBase + 1024, 5000, "temporary");
  }
  document.annotations.push_back({"forward", false, 0, time + 1});
  event(SnapshotAction::oom, 123, 1 << 30, "");
  Document::Segment segment{.address = kBase, .size_bytes = 20 << 20, .blocks = {}};
  segment.blocks.push_back({.address = kBase, .size_bytes = 1024, .requested_bytes = 1000, .stack = 0});
  segment.blocks.back().category = "parameter";
  device.segments.push_back(segment);
  return document;
}

std::string written(const Document& document, const char* name = "s.pickle") {
  const TemporaryFolder folder;
  write_snapshot(folder / name, document);
  return read_file(folder / name, 1 << 28);
}

TEST(WriteSnapshot, what_is_written_is_what_is_read_as_pickle_and_as_json) {
  const TemporaryFolder folder;
  for (const char* name : {"s.pickle", "s.json"}) {
    write_snapshot(folder / name, small_document(3));
    const Snapshot snapshot = read_snapshot(folder / name);
    EXPECT_TRUE(snapshot.omissions.unknown_fields.empty());
    EXPECT_EQ(snapshot.omissions.incomplete_entries + snapshot.omissions.misplaced_values, 0u);
    ASSERT_THAT(snapshot.histories, SizeIs(2));
    EXPECT_EQ(snapshot.histories[0].size(), 3u + 3 * 3);
    ASSERT_THAT(snapshot.segments, SizeIs(1));
    ASSERT_THAT(snapshot.segments[0].blocks, SizeIs(2));
    EXPECT_EQ(snapshot.segments[0].blocks[1].state, BlockState::inactive);
    EXPECT_EQ(snapshot.segments[0].blocks[1].size_bytes, (20u << 20) - 1024);
    const SnapshotReport report = analyse_device(snapshot, 0);
    EXPECT_EQ(report.peak.allocated_bytes, 1024u + 5120);
    EXPECT_EQ(report.peak.reserved_bytes, 20u << 20);
    EXPECT_TRUE(report.history_complete);
    EXPECT_FALSE(report.categories_inferred);
    ASSERT_THAT(report.contents.categories, SizeIs(2));
    EXPECT_EQ(report.contents.categories[0].name, "temporary");
    EXPECT_EQ(report.contents.origins[0].name, "layers.0.ffn.w1 (models/transformer.cpp:42)");
    ASSERT_THAT(report.phases, SizeIs(1));
    EXPECT_EQ(report.phases[0].peak_bytes, 1024u + 5120);
    ASSERT_THAT(report.out_of_memory, SizeIs(1));
    EXPECT_EQ(report.out_of_memory[0].device_free_bytes, 123u);
  }
}

// Bytes of operands behind an opcode that the viewer knows (MemoryViz.js); -1 and -4 for a text with a length in front.
const std::map<unsigned char, int> kViewerOpcodes = {
    {0x80, 1}, {0x95, 8},  {'.', 0},  {'N', 0},   {0x88, 0}, {0x89, 0}, {'J', 4}, {'K', 1},
    {'M', 2},  {0x8a, -1}, {'G', 8},  {0x8c, -1}, {'X', -4}, {']', 0},  {'}', 0}, {')', 0},
    {'(', 0},  {'a', 0},   {'e', 0},  {'s', 0},   {'u', 0},  {'l', 0},  {'d', 0}, {'t', 0},
    {0x85, 0}, {0x86, 0},  {0x87, 0}, {0x94, 0},  {'q', 1},  {'r', 4},  {'h', 1}, {'j', 4}};

TEST(WriteSnapshot, a_pickle_has_only_the_opcodes_of_the_viewer) {
  Document document = small_document(2500);
  document.frames[0].name = std::string(300, 'n');
  const std::string bytes = written(document);
  std::map<unsigned char, int> counts;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const auto opcode = static_cast<unsigned char>(bytes[at]);
    const auto found = kViewerOpcodes.find(opcode);
    ASSERT_NE(found, kViewerOpcodes.end()) << "opcode " << int{opcode} << " at byte " << at;
    ++counts[opcode];
    const auto byte_at = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
    ++at;
    if (found->second == -1) {
      at += 1 + byte_at(at);
    } else if (found->second == -4) {
      at += 4 + byte_at(at) + (byte_at(at + 1) << 8);
    } else {
      at += static_cast<std::size_t>(found->second);
    }
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_EQ(bytes.substr(0, 2), "\x80\x04");
  EXPECT_EQ(counts['.'], 1);
  EXPECT_EQ(counts['q'] + counts['r'], 0) << "one memo scheme";
  EXPECT_GE(counts['e'], 7) << "7502 events in batches of 1000";
  EXPECT_EQ(counts['X'], 1);
}

TEST(WriteSnapshot, texts_frames_and_stacks_are_written_once) {
  const std::string few = written(small_document(10));
  const std::string many = written(small_document(11));
  const auto occurrences = [](const std::string& bytes, const std::string& word) {
    std::size_t count = 0;
    for (std::size_t at = bytes.find(word); at != std::string::npos; at = bytes.find(word, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(occurrences(few, "layers.0.ffn.w1"), 1u);
  EXPECT_EQ(occurrences(few, "user_metadata"), 1u);
  EXPECT_LT(many.size() - few.size(), 3u * 90);
}

TEST(WriteSnapshot, where_categories_are_used_one_is_unknown) {
  Document document = small_document(1);
  std::erase_if(document.devices[0].events, [](const Document::Event& event) { return event.category.empty(); });
  const TemporaryFolder folder;
  write_snapshot(folder / "s.json", document);
  EXPECT_THAT(read_file(folder / "s.json", 1 << 20), HasSubstr(R"("category":"unknown")"));
  for (Document::Event& event : document.devices[0].events) event.category.clear();
  document.devices[0].segments[0].blocks[0].category.clear();
  write_snapshot(folder / "s.json", document);
  EXPECT_THAT(read_file(folder / "s.json", 1 << 20), ::testing::Not(HasSubstr("category")));
}

TEST(WriteSnapshot, blocks_that_overlap_or_leave_their_segment_are_refused_and_leave_no_file) {
  const TemporaryFolder folder;
  Document overlapping = small_document(1);
  overlapping.devices[0].segments[0].blocks.push_back({.address = kBase + 512, .size_bytes = 1024});
  EXPECT_THAT([&] { write_snapshot(folder / "s", overlapping); }, ThrowsMessage<Error>(HasSubstr("overlaps")));
  Document outside = small_document(1);
  outside.devices[0].segments[0].blocks.push_back({.address = kBase + (20 << 20) - 512, .size_bytes = 1024});
  EXPECT_THAT([&] { write_snapshot(folder / "s", outside); }, ThrowsMessage<Error>(HasSubstr("leaves its segment")));
  Document half = small_document(1);
  half.devices[0].events[1].action = SnapshotAction::free_completed;
  EXPECT_THAT([&] { write_snapshot(folder / "s", half); }, ThrowsMessage<Error>(HasSubstr("free_completed")));
  Document stack = small_document(1);
  stack.devices[0].events[1].stack = 99;
  EXPECT_THAT([&] { write_snapshot(folder / "s", stack); }, ThrowsMessage<Error>(HasSubstr("stack 99")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

constexpr const char* kCheck = R"(
import pickle, sys
s = pickle.load(open(sys.argv[1], 'rb'))
assert set(s) == {'segments', 'device_traces', 'allocator_settings', 'external_annotations'}, s.keys()
assert len(s['device_traces']) == 2
for device, trace in enumerate(s['device_traces']):
    live, previous = {}, None
    for e in trace:
        for key, kind in dict(action=str, size=int, stream=int, time_us=int, compile_context=str, user_metadata=str,
                              pool_id=tuple, frames=list, category=str).items():
            assert type(e[key]) is kind, (key, e)
        assert type(e['device_free' if e['action'] == 'oom' else 'addr']) is int
        for f in e['frames']:
            assert type(f['filename']) is str and type(f['line']) is int and type(f['name']) is str
        if previous == 'free_requested':
            assert e['action'] == 'free_completed'
        previous = e['action']
        if e['action'] == 'alloc': live[e['addr']] = e
        if e['action'] == 'free_completed': del live[e['addr']]
    blocks = {b['address']: b for g in s['segments'] if g['device'] == device for b in g['blocks'] if b['state'] == 'active_allocated'}
    assert set(live) == set(blocks)
for g in s['segments']:
    at = g['address']
    for b in g['blocks']:
        assert b['address'] == at
        at += b['size']
    assert at == g['address'] + g['total_size']
    assert g['segment_type'] in ('small', 'large') and type(g['is_expandable']) is bool
    assert g['allocated_size'] == sum(b['size'] for b in g['blocks'] if b['state'] == 'active_allocated')
assert any(e['category'] == 'unknown' for e in s['device_traces'][0])
assert [a['stage'] for a in s['external_annotations']] == ['START', 'END']
)";

TEST(WriteSnapshot, pythons_pickle_loads_it_with_the_schema_of_pytorch) {
  if (std::system("python3 -c pass >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no python3";
  const TemporaryFolder folder;
  write_snapshot(folder / "s.pickle", small_document(1500));
  write_file(folder / "check.py", kCheck);
  const std::string command =
      "python3 '" + (folder / "check.py").string() + "' '" + (folder / "s.pickle").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace ridgepoint
