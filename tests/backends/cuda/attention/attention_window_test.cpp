// The blocks that Hopper's kernels visit where there is a window, against the definition of a window.
#include "backends/cuda/attention/common/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ridgepoint {
namespace {

constexpr int kLengths[] = {1, 63, 64, 129, 300, 513};
constexpr int kWindows[] = {1, 2, 63, 64, 65, 127, 128, 129, 200, 512};

bool sees(int query, int key, int window) { return key <= query && key > query - window; }

// Calls `check` with each combination of a length, a window, and blocks of queries and keys.
template <class Check>
void for_each_case(const std::vector<int>& rows, const std::vector<int>& keys, const Check& check) {
  for (const int length : kLengths) {
    for (const int window : kWindows) {
      for (const int r : rows) {
        for (const int k : keys) check(length, window, r, k);
      }
    }
  }
}

TEST(AttentionWindow, forward_begins_at_the_first_block_of_keys_that_a_query_sees) {
  for_each_case({64, 128, 192}, {64, 80, 128}, [](int length, int window, int rows, int keys) {
    for (int query = 0; query < length; query += rows) {
      const int found = cuda::first_visible_block(query, window, keys);
      const int first = std::max(0, query - window + 1);
      ASSERT_TRUE(sees(query, first, window) && (first == 0 || !sees(query, first - 1, window)));
      ASSERT_TRUE(found * keys <= first && first < (found + 1) * keys) << query << " window " << window;
    }
  });
}

TEST(AttentionWindow, backward_ends_at_the_last_query_that_sees_a_key) {
  for_each_case({64}, {64, 128}, [](int length, int window, int, int keys) {
    for (int key = 0; key < length; key += keys) {
      const int last_key = std::min(key + keys, length) - 1;
      int expected = length - 1;
      while (!sees(expected, last_key, window)) --expected;
      ASSERT_EQ(cuda::last_seeing_query(key + keys, window, length), expected) << key << " window " << window;
    }
  });
}

TEST(AttentionWindow, hides_a_key_of_a_block_from_a_query_of_a_block) {
  for_each_case({64, 128}, {64, 80, 128}, [](int length, int window, int rows, int keys) {
    for (int query = 0; query < length; query += rows) {
      for (int key = 0; key < length; key += keys) {
        const int last = query + rows - 1;
        ASSERT_EQ(cuda::window_hides(key, last, window), key <= last && !sees(last, key, window));
      }
    }
  });
}

// The blocks of keys that visit a block of queries are in a row, and the first of them stores what the others add to.
TEST(AttentionWindow, blocks_of_keys_that_add_to_a_gradient_are_numbered_from_the_first) {
  for_each_case({64, 128}, {64, 128}, [](int length, int window, int rows, int keys) {
    std::vector<int> added(static_cast<std::size_t>((length - 1) / rows + 1), 0);
    for (int block = 0; block * keys < length; ++block) {
      const int last = cuda::last_seeing_query((block + 1) * keys, window, length) / rows;
      for (int step = last; step >= block * keys / rows; --step) {
        int& place = added[static_cast<std::size_t>(step)];
        ASSERT_EQ(block - cuda::first_visible_block(step * rows, window, keys), place) << "step " << step;
        ASSERT_EQ(cuda::is_first_visible_block(block * keys, step * rows, window), place == 0) << "step " << step;
        ++place;
      }
    }
    ASSERT_TRUE(std::ranges::all_of(added, [](int count) { return count > 0; })) << length << " window " << window;
  });
}

// What Hopper's kernels take for no window.
TEST(AttentionWindow, as_long_as_the_longer_sequence_hides_nothing) {
  for (const auto& [queries, keys] : {std::pair{300, 300}, {1, 500}, {700, 20}}) {
    const int window = std::max(queries, keys);
    for (int query = 0; query < queries; ++query) {
      EXPECT_EQ(cuda::first_visible_block(query, window, 64), 0);
      EXPECT_FALSE(cuda::window_hides(0, query, window));
    }
    for (int end = 1; end <= keys; ++end) EXPECT_EQ(cuda::last_seeing_query(end, window, queries), queries - 1);
  }
}

}  // namespace
}  // namespace ridgepoint
