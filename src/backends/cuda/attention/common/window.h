// Which blocks of keys a window leaves to blocks of queries: query i attends to keys i - window + 1 to i. Host and
// device code both include this header, so it uses plain functions and no other header of the library.
#pragma once

namespace ridgepoint::cuda {

// The first of the keys, in blocks of `keys`, that a query from `query` on sees; a window of 0 is none.
constexpr int first_visible_block(int query, int window, int keys) {
  if (window == 0) return 0;
  return (query - window + 1 > 0 ? query - window + 1 : 0) / keys;
}

// The last query that sees one of the keys before `key`, among `queries`; a window of 0 is none.
constexpr int last_seeing_query(int key, int window, int queries) {
  if (window == 0) return queries - 1;
  return (key + window - 1 < queries ? key + window - 1 : queries) - 1;
}

// Whether the window, which is not 0, hides a key from `key` on from a query up to `last_query`.
constexpr bool window_hides(int key, int last_query, int window) { return key <= last_query - window; }

// Whether the block of keys that begins at `key` is the first that a query from `query` on sees, if one sees it.
constexpr bool is_first_visible_block(int key, int query, int window) { return key == 0 || key <= query - window + 1; }

}  // namespace ridgepoint::cuda
