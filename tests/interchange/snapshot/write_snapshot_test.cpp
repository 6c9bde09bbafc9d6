#include "interchange/snapshot/write_snapshot.h"

#include <cstdlib>
#include <map>
#include <set>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "inspect/memory/analyse.h"
#include "interchange/snapshot/reader/read_snapshot.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/made_snapshot.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kBase = 0x7f1234500000;

// Two devices; on the first a parameter stays and `temporaries` come and go.
Snapshot small_snapshot(int temporaries, const std::string& name = "layers.0.ffn.w1", bool has_categories = true) {
  MadeSnapshot made;
  const std::uint32_t origin = made.origin("src/models/transformer.cpp", 42, name, "model");
  const auto category = [&](const char* text) { return has_categories ? made.category(text) : std::uint8_t{0}; };
  const std::uint8_t parameter = category("parameter"), temporary = category("temporary");
  const auto event = [&](MemoryEventKind kind, std::uint64_t address, std::uint64_t size, std::uint8_t kept) {
    made.time_us += 5;
    MemoryHistory::Request request{.size_bytes = size, .origin = origin, .category = kept};
    if (kept != 0) request.rounding_bytes = static_cast<std::uint32_t>((size + 511) / 512 * 512 - size);
    made.event(kind, address, request);
  };
  event(MemoryEventKind::segment_alloc, kBase, 20 << 20, 0);
  event(MemoryEventKind::alloc, kBase, 1000, parameter);
  ++made.time_us;
  made.mark("forward", true);
  for (int i = 0; i < temporaries; ++i) {
    event(MemoryEventKind::alloc, kBase + 1024, 5000, temporary);
    event(MemoryEventKind::free, kBase + 1024, 5000, temporary);
  }
  ++made.time_us;
  made.mark("forward", false);
  event(MemoryEventKind::oom, 123, 1 << 30, 0);
  SnapshotSegment segment{.address = kBase, .size_bytes = 20 << 20, .is_large = true};
  segment.blocks.push_back({.address = kBase,
                            .size_bytes = 1024,
                            .requested_bytes = 1000,
                            .origin = origin,
                            .state = BlockState::active_allocated,
                            .category = parameter});
  made.snapshot.segments.push_back(segment);
  made.snapshot.histories.emplace_back();
  return std::move(made.snapshot);
}

std::string written(const Snapshot& snapshot, const char* name = "s.pickle") {
  const TemporaryFolder folder;
  write_snapshot(folder / name, snapshot);
  return read_file(folder / name, 1 << 28);
}

TEST(WriteSnapshot, what_is_written_is_what_is_read_as_pickle_and_as_json) {
  const TemporaryFolder folder;
  for (const char* name : {"s.pickle", "s.json"}) {
    write_snapshot(folder / name, small_snapshot(3));
    const Snapshot snapshot = read_snapshot(folder / name);
    EXPECT_TRUE(snapshot.omissions.unknown_fields.empty());
    EXPECT_EQ(snapshot.omissions.incomplete_entries + snapshot.omissions.misplaced_values, 0u);
    ASSERT_THAT(snapshot.histories, SizeIs(2));
    EXPECT_EQ(snapshot.histories[0].size(), 3u + 3 * 2);
    ASSERT_THAT(snapshot.segments, SizeIs(1));
    ASSERT_THAT(snapshot.segments[0].blocks, SizeIs(2));
    EXPECT_EQ(snapshot.segments[0].blocks[1].state, BlockState::inactive);
    EXPECT_EQ(snapshot.segments[0].blocks[1].size_bytes, (20u << 20) - 1024);
    const MemoryReport report = analyse_memory(snapshot, 0).report;
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

TEST(WriteSnapshot, settings_and_phases_of_ours_are_read_back) {
  Snapshot snapshot = small_snapshot(1);
  snapshot.settings.counted_from_us = 1234567890123456;
  snapshot.settings.has_clock = false;
  snapshot.origins[1].phase = snapshot.texts.intern("backward");
  snapshot.origins[1].formula = snapshot.texts.intern("4 D F");
  const TemporaryFolder folder;
  write_snapshot(folder / "s.pickle", snapshot);
  const Snapshot found = read_snapshot(folder / "s.pickle");
  EXPECT_EQ(found.settings.counted_from_us, 1234567890123456);
  EXPECT_FALSE(found.settings.has_clock);
  const SnapshotOrigin& origin = found.origins.at(history_of(found, 0).request(1).origin);
  EXPECT_EQ(found.texts[origin.phase], "backward");
  EXPECT_EQ(found.texts[origin.formula], "4 D F");
}

TEST(WriteSnapshot, the_metadata_of_an_event_says_what_it_is_for) {
  Snapshot snapshot = small_snapshot(1);
  snapshot.origins[1].phase = snapshot.texts.intern("loss");
  snapshot.origins[1].formula = snapshot.texts.intern("4 B S V");
  const std::string json = written(snapshot, "s.json");
  EXPECT_THAT(json, HasSubstr(R"("user_metadata":"phase: loss, category: parameter, formula: 4 B S V")"));
  EXPECT_THAT(json, HasSubstr(R"("user_metadata":"forward, phase: loss, category: temporary, formula: 4 B S V")"));
}

// The temporary is allocated 5 us after the annotation begins, and freed 1 us before that ends.
TEST(WriteSnapshot, an_event_is_in_the_annotation_that_begins_at_its_time_and_in_none_that_ends_then) {
  const auto events_in_forward = [](std::int64_t begins_later_us, std::int64_t ends_earlier_us) {
    Snapshot snapshot = small_snapshot(1);
    snapshot.origins[1].phase = snapshot.texts.intern("loss");
    snapshot.annotations.at(0).time_us += begins_later_us;
    snapshot.annotations.at(1).time_us -= ends_earlier_us;
    const std::string json = written(snapshot, "s.json");
    constexpr std::string_view kForward = R"("user_metadata":"forward, phase)";
    int count = 0;
    for (std::size_t at = json.find(kForward); at != std::string::npos; at = json.find(kForward, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(events_in_forward(0, 0), 3) << "an allocation, and a free that is requested and completed";
  EXPECT_EQ(events_in_forward(5, 0), 3);
  EXPECT_EQ(events_in_forward(6, 0), 2);
  EXPECT_EQ(events_in_forward(0, 1), 1);
}

TEST(WriteSnapshot, frames_stand_within_one_another_and_have_a_line) {
  Snapshot snapshot = small_snapshot(1);
  const auto frame = [&](const char* name) {
    snapshot.frames.push_back({snapshot.texts.intern("src/model.cpp"), snapshot.texts.intern(name), 0});
    return static_cast<std::uint32_t>(snapshot.frames.size() - 1);
  };
  snapshot.origins[1].caller = kNoFrame;
  snapshot.origins[1].around = 1;
  snapshot.stacks.push_back({frame("layers.0"), frame("forward")});
  EXPECT_THAT(written(snapshot, "s.json"),
              HasSubstr(R"("name":"layers.0.ffn.w1"},{"filename":"src/model.cpp","line":1,"name":"layers.0"},)"
                        R"({"filename":"src/model.cpp","line":1,"name":"forward"}])"));
}

// Bytes of operands behind an opcode that the viewer knows (MemoryViz.js); -1 and -4 for a text with a length in front.
const std::map<unsigned char, int> kViewerOpcodes = {
    {0x80, 1}, {0x95, 8},  {'.', 0},  {'N', 0},   {0x88, 0}, {0x89, 0}, {'J', 4}, {'K', 1},
    {'M', 2},  {0x8a, -1}, {'G', 8},  {0x8c, -1}, {'X', -4}, {']', 0},  {'}', 0}, {')', 0},
    {'(', 0},  {'a', 0},   {'e', 0},  {'s', 0},   {'u', 0},  {'l', 0},  {'d', 0}, {'t', 0},
    {0x85, 0}, {0x86, 0},  {0x87, 0}, {0x94, 0},  {'q', 1},  {'r', 4},  {'h', 1}, {'j', 4}};

TEST(WriteSnapshot, a_pickle_has_only_the_opcodes_of_the_viewer) {
  const std::string bytes = written(small_snapshot(2500, std::string(300, 'n')));
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
  const std::string few = written(small_snapshot(10));
  const std::string many = written(small_snapshot(11));
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
  MadeSnapshot made;
  made.event(MemoryEventKind::alloc, kBase, {.size_bytes = 512, .category = made.category("parameter")});
  EXPECT_THAT(written(made.snapshot, "s.json"), HasSubstr(R"("category":"unknown")"));
  EXPECT_THAT(written(small_snapshot(1, "w1", false), "s.json"), Not(HasSubstr("category")));
}

TEST(WriteSnapshot, blocks_that_overlap_or_leave_their_segment_are_refused_and_leave_no_file) {
  const TemporaryFolder folder;
  const auto refused = [&](const Snapshot& snapshot, const char* why) {
    EXPECT_THAT(error_of([&] { write_snapshot(folder / "s", snapshot); }), HasSubstr(why));
  };
  Snapshot overlapping = small_snapshot(1);
  overlapping.segments[0].blocks.push_back({.address = kBase + 512, .size_bytes = 1024});
  refused(overlapping, "overlaps");
  Snapshot outside = small_snapshot(1);
  outside.segments[0].blocks.push_back({.address = kBase + (20 << 20) - 512, .size_bytes = 1024});
  refused(outside, "leaves its segment");
  Snapshot origin = small_snapshot(1);
  origin.segments[0].origin = 99;
  refused(origin, "origin 99");
  Snapshot category = small_snapshot(1);
  category.segments[0].blocks[0].category = 99;
  refused(category, "category 99");
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
            assert type(f['filename']) is str and type(f['line']) is int and f['line'] > 0 and type(f['name']) is str
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
  write_snapshot(folder / "s.pickle", small_snapshot(1500));
  write_file(folder / "check.py", kCheck);
  const std::string command =
      "python3 '" + (folder / "check.py").string() + "' '" + (folder / "s.pickle").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace ridgepoint
