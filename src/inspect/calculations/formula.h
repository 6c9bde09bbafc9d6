// Formulas as on paper, "2 (N-1)/N G / W": their value, and their text with figures.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace ridgepoint {

using Symbols = std::map<std::string, double, std::less<>>;

// A formula has numbers, symbols, parentheses, + - / ^ and the functions max, ceil, sqrt and log2; factors that follow
// one another are multiplied. Products and quotients are taken from left to right: a/b c is (a/b) c. Throws Error for a
// formula that is none, and for an unknown symbol.
double value_of(std::string_view formula, const Symbols& symbols);

// The formula with the values of its symbols: "2 × (8-1)/8 × 6.865e9 / 3.51e11".
std::string with_figures(std::string_view formula, const Symbols& symbols);

// Whole numbers below a million as they are, others with four digits: 8, 2048, 6.865e9, 0.78.
std::string figure(double value);

}  // namespace ridgepoint
