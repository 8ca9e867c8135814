// What a terminal can show.
#pragma once

namespace lapidary::cli {

// Whether a line can be taken back and pastes be marked: it is a terminal, and no dumb one.
bool takes_escapes(int descriptor);
// And whether the user lets it be coloured: NO_COLOR says no.
bool takes_colours(int descriptor);
// How many letters fit into a line; 0 where nobody knows.
int columns_of(int descriptor);

}  // namespace lapidary::cli
