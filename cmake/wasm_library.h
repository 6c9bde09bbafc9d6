// What the C++20 library of Debian 12's Emscripten (libc++ 13) lacks, as the standard has it, as far as the sources use
// it: the algorithms of ranges, std::views::reverse, std::bit_cast, and std::from_chars of floating-point numbers.
// Emscripten of Debian 13 has the algorithms. The `wasm` build includes this file in front of every source; nothing
// else does.
#pragma once

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#ifndef __cpp_lib_ranges
namespace std::ranges {

namespace lent {

// Calls of an algorithm for iterators by a range.
template <class Range>
constexpr auto first(Range&& range) {
  return std::ranges::begin(range);
}
template <class Range>
constexpr auto last(Range&& range) {
  return std::ranges::end(range);
}

template <class Compare, class Project>
constexpr auto by(Compare& compare, Project& project) {
  return [&](auto&& a, auto&& b) -> bool {
    return std::invoke(compare, std::invoke(project, std::forward<decltype(a)>(a)),
                       std::invoke(project, std::forward<decltype(b)>(b)));
  };
}
template <class Predicate, class Project>
constexpr auto of(Predicate& predicate, Project& project) {
  return [&](auto&& item) -> bool {
    return std::invoke(predicate, std::invoke(project, std::forward<decltype(item)>(item)));
  };
}
template <class Value, class Project>
constexpr auto is(const Value& value, Project& project) {
  return [&](auto&& item) -> bool { return std::invoke(project, std::forward<decltype(item)>(item)) == value; };
}

}  // namespace lent

#define LENT_PREDICATE(name)                                                               \
  template <range Range, class Predicate, class Project = std::identity>                   \
  constexpr auto name(Range&& range, Predicate predicate, Project project = {}) {          \
    return std::name(lent::first(range), lent::last(range), lent::of(predicate, project)); \
  }
LENT_PREDICATE(all_of)
LENT_PREDICATE(any_of)
LENT_PREDICATE(none_of)
LENT_PREDICATE(count_if)
LENT_PREDICATE(find_if)
LENT_PREDICATE(find_if_not)
#undef LENT_PREDICATE

#define LENT_ORDER(name)                                                                   \
  template <range Range, class Compare = std::ranges::less, class Project = std::identity> \
  constexpr auto name(Range&& range, Compare compare = {}, Project project = {}) {         \
    return std::name(lent::first(range), lent::last(range), lent::by(compare, project));   \
  }
LENT_ORDER(max_element)
LENT_ORDER(min_element)
LENT_ORDER(is_sorted)
#undef LENT_ORDER

#define LENT_SORT(name)                                                                    \
  template <range Range, class Compare = std::ranges::less, class Project = std::identity> \
  constexpr auto name(Range&& range, Compare compare = {}, Project project = {}) {         \
    std::name(lent::first(range), lent::last(range), lent::by(compare, project));          \
    return lent::last(range);                                                              \
  }
LENT_SORT(sort)
LENT_SORT(stable_sort)
#undef LENT_SORT

template <range Range, class Value, class Project = std::identity>
constexpr auto find(Range&& range, const Value& value, Project project = {}) {
  return std::find_if(lent::first(range), lent::last(range), lent::is(value, project));
}
template <input_or_output_iterator Iterator, class Value, class Project = std::identity>
constexpr auto find(Iterator first, Iterator last, const Value& value, Project project = {}) {
  return std::find_if(first, last, lent::is(value, project));
}
template <input_or_output_iterator Iterator, class Predicate>
constexpr auto find_if(Iterator first, Iterator last, Predicate predicate) {
  return std::find_if(first, last, predicate);
}
template <range Range, class Value, class Project = std::identity>
constexpr auto count(Range&& range, const Value& value, Project project = {}) {
  return std::count_if(lent::first(range), lent::last(range), lent::is(value, project));
}
template <range Range, class Value, class Compare = std::ranges::less, class Project = std::identity>
constexpr auto lower_bound(Range&& range, const Value& value, Compare compare = {}, Project project = {}) {
  return std::lower_bound(lent::first(range), lent::last(range), value, [&](auto&& item, const Value& wanted) {
    return std::invoke(compare, std::invoke(project, item), wanted);
  });
}
template <range Range, class Value, class Compare = std::ranges::less, class Project = std::identity>
constexpr auto upper_bound(Range&& range, const Value& value, Compare compare = {}, Project project = {}) {
  return std::upper_bound(lent::first(range), lent::last(range), value, [&](const Value& wanted, auto&& item) {
    return std::invoke(compare, wanted, std::invoke(project, item));
  });
}
template <range Range, class Value, class Compare = std::ranges::less, class Project = std::identity>
constexpr auto equal_range(Range&& range, const Value& value, Compare compare = {}, Project project = {}) {
  auto first = ranges::lower_bound(range, value, compare, project);
  auto last = ranges::upper_bound(range, value, compare, project);
  return subrange(first, last);
}
template <range Range, class Value, class Compare = std::ranges::less, class Project = std::identity>
constexpr bool binary_search(Range&& range, const Value& value, Compare compare = {}, Project project = {}) {
  const auto found = ranges::lower_bound(range, value, compare, project);
  return found != lent::last(range) && !std::invoke(compare, value, std::invoke(project, *found));
}
template <range Range>
constexpr auto adjacent_find(Range&& range) {
  return std::adjacent_find(lent::first(range), lent::last(range));
}
template <range Range, class Predicate>
constexpr auto adjacent_find(Range&& range, Predicate predicate) {
  return std::adjacent_find(lent::first(range), lent::last(range), predicate);
}
template <range Range>
constexpr auto max(Range&& range) {
  return *std::max_element(lent::first(range), lent::last(range));
}
template <class Value>
struct MinMax {
  Value min;
  Value max;
};
template <range Range>
constexpr auto minmax(Range&& range) {
  const auto [least, most] = std::minmax_element(lent::first(range), lent::last(range));
  return MinMax<std::remove_cvref_t<decltype(*least)>>{*least, *most};
}
template <range First, range Second, class Compare = std::ranges::equal_to>
constexpr bool equal(First&& first, Second&& second, Compare compare = {}) {
  return std::equal(lent::first(first), lent::last(first), lent::first(second), lent::last(second),
                    [&](auto&& a, auto&& b) -> bool { return std::invoke(compare, a, b); });
}
template <class FirstIterator, class SecondIterator>
struct InIn {
  FirstIterator in1;
  SecondIterator in2;
};
template <range First, range Second>
constexpr auto mismatch(First&& first, Second&& second) {
  const auto [a, b] = std::mismatch(lent::first(first), lent::last(first), lent::first(second), lent::last(second));
  return InIn<decltype(lent::first(first)), decltype(lent::first(second))>{a, b};
}
template <range First, range Second>
constexpr auto find_first_of(First&& first, Second&& second) {
  return std::find_first_of(lent::first(first), lent::last(first), lent::first(second), lent::last(second));
}
template <range First, range Second, class Compare>
constexpr auto search(First&& first, Second&& second, Compare compare) {
  const auto found =
      std::search(lent::first(first), lent::last(first), lent::first(second), lent::last(second), compare);
  return subrange(found, found == lent::last(first) ? found : std::next(found, std::ranges::size(second)));
}
template <range Range, class Function>
constexpr void for_each(Range&& range, Function function) {
  std::for_each(lent::first(range), lent::last(range), [&](auto&& item) { std::invoke(function, item); });
}
template <range Range, class Output>
constexpr void copy(Range&& range, Output output) {
  std::copy(lent::first(range), lent::last(range), output);
}
template <range Range, class Output>
constexpr void move(Range&& range, Output output) {
  std::move(lent::first(range), lent::last(range), output);
}
template <range Range, class Output, class Predicate, class Project = std::identity>
constexpr void copy_if(Range&& range, Output output, Predicate predicate, Project project = {}) {
  std::copy_if(lent::first(range), lent::last(range), output, lent::of(predicate, project));
}
template <range Range, class Output, class Function>
constexpr void transform(Range&& range, Output output, Function function) {
  std::transform(lent::first(range), lent::last(range), output,
                 [&](auto&& item) -> decltype(auto) { return std::invoke(function, item); });
}
template <range First, range Second, class Output, class Compare = std::ranges::less, class OfFirst = std::identity,
          class OfSecond = std::identity>
constexpr void merge(First&& first, Second&& second, Output output, Compare compare = {}, OfFirst of_first = {},
                     OfSecond of_second = {}) {
  auto a = lent::first(first);
  auto b = lent::first(second);
  while (a != lent::last(first) && b != lent::last(second)) {
    const bool takes_second = std::invoke(compare, std::invoke(of_second, *b), std::invoke(of_first, *a));
    if (takes_second) {
      *output++ = *b++;
    } else {
      *output++ = *a++;
    }
  }
  std::copy(b, lent::last(second), std::copy(a, lent::last(first), output));
}
template <range Range, class Value>
constexpr void fill(Range&& range, const Value& value) {
  std::fill(lent::first(range), lent::last(range), value);
}
template <range Range, class Old, class New>
constexpr void replace(Range&& range, const Old& old_value, const New& new_value) {
  std::replace(lent::first(range), lent::last(range), old_value, new_value);
}
template <range Range, class Predicate, class New>
constexpr void replace_if(Range&& range, Predicate predicate, const New& new_value) {
  std::replace_if(lent::first(range), lent::last(range), predicate, new_value);
}
template <range Range>
constexpr void reverse(Range&& range) {
  std::reverse(lent::first(range), lent::last(range));
}
template <range Range, class Iterator>
constexpr void rotate(Range&& range, Iterator middle) {
  std::rotate(lent::first(range), middle, lent::last(range));
}
template <range Range, class Iterator, class Compare = std::ranges::less>
constexpr void nth_element(Range&& range, Iterator nth, Compare compare = {}) {
  std::nth_element(lent::first(range), nth, lent::last(range), compare);
}
template <range Range, class Compare = std::ranges::equal_to, class Project>
constexpr auto unique(Range&& range, Compare compare, Project project) {
  return subrange(std::unique(lent::first(range), lent::last(range), lent::by(compare, project)), lent::last(range));
}
template <range Range, class Result, class Value>
constexpr auto remove_copy(Range&& range, Result result, const Value& value) {
  return std::remove_copy(lent::first(range), lent::last(range), result, value);
}
template <class Iterator, class Value, class Compare = std::ranges::less, class Project>
constexpr auto upper_bound(Iterator first, Iterator last, const Value& value, Compare compare, Project project) {
  return std::upper_bound(first, last, value, [&](const Value& wanted, auto&& item) {
    return std::invoke(compare, wanted, std::invoke(project, item));
  });
}
template <range Range>
constexpr auto unique(Range&& range) {
  return subrange(std::unique(lent::first(range), lent::last(range)), lent::last(range));
}
template <range Range, class Predicate>
constexpr auto stable_partition(Range&& range, Predicate predicate) {
  return subrange(std::stable_partition(lent::first(range), lent::last(range), predicate), lent::last(range));
}

}  // namespace std::ranges

namespace std::views {

template <std::ranges::range Range>
constexpr auto reverse(const Range& range) {
  return std::ranges::subrange(std::make_reverse_iterator(std::ranges::end(range)),
                               std::make_reverse_iterator(std::ranges::begin(range)));
}

}  // namespace std::views
#endif

#ifndef __cpp_lib_bit_cast
namespace std {
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
}  // namespace std
#endif

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
namespace std {

// By strtod(), which also takes what this function must not: a sign +, leading spaces, hexadecimal digits.
inline from_chars_result from_chars(const char* first, const char* last, double& value,
                                    chars_format format = chars_format::general) {
  const std::string_view signs = format == chars_format::fixed ? "-.0123456789" : "-+.eE0123456789";
  const std::string_view all(first, static_cast<std::size_t>(last - first));
  const std::string number(all.substr(0, all.find_first_not_of(signs)));
  char* end = nullptr;
  errno = 0;
  const double read = number.starts_with('+') ? 0 : std::strtod(number.c_str(), &end);
  if (end == nullptr || end == number.c_str()) return {first, errc::invalid_argument};
  const char* const stop = first + (end - number.c_str());
  if (errno == ERANGE) return {stop, errc::result_out_of_range};
  value = read;
  return {stop, errc()};
}

}  // namespace std
#endif
