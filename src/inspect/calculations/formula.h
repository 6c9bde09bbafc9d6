// Formulas as one writes them on paper, "2 (N-1)/N G / W": what they give, and how they read with figures.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace ridgepoint {

using Symbols = std::map<std::string, double, std::less<>>;

// Numbers, symbols, parentheses, + and -, / and, where factors follow one another, their product; ^; the functions max,
// ceil, sqrt and log2. Products and quotients are taken from left to right: a/b c is (a/b) c. Throws Error for a
// formula that is none, and for an unknown symbol.
double value_of(std::string_view formula, const Symbols& symbols);

// The formula with the values of its symbols: "2 × (8-1)/8 × 6.865e9 / 3.51e11".
std::string with_figures(std::string_view formula, const Symbols& symbols);

// Whole numbers below a million as they are, others with four digits: 8, 2048, 6.865e9, 0.78.
std::string figure(double value);

}  // namespace ridgepoint
