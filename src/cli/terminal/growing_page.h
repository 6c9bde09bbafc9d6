// A page on the terminal of standard output that grows while rows are measured: each version is drawn over the one
// before. A version that is taller than the terminal shows its last lines until the page is complete.
#pragma once

#include <string>

namespace ridgepoint::cli {

// Whether standard output is a terminal that can move its cursor.
bool can_draw_pages();

void draw_page(const std::string& page);
// Draws the complete page, which the terminal may scroll.
void draw_last_page(const std::string& page);
// What is drawn stays, and the next version is drawn below it: call it before printing anything else on this terminal.
void leave_drawn_page();

// Whether standard error is the terminal on which a page is drawn.
bool draws_where_errors_go();
// Prints lines on standard error, above the page if it is drawn there.
void print_above_page(const std::string& lines);

// What turns `drawn` into `page` on a terminal: the cursor stands below the last line of `drawn`, and is moved up to
// its first. Of `page`, the last `rows` lines are shown. Both end with a newline, or are empty. Lines are written over
// those before: a terminal that is emptied first flickers, and tmux keeps what was on it as if it were older output.
std::string redrawn(const std::string& drawn, const std::string& page, std::size_t rows);

// What writes lines above a page that is drawn: the first and the last go to standard output.
struct Insertion {
  std::string back, lines, page;
};
Insertion inserted_above(const std::string& drawn, const std::string& lines);

}  // namespace ridgepoint::cli
