// The program among others: its standard streams, its locale, signals that mean its files.
#pragma once

#include "checkpoint/error.hpp"

namespace lapidary::cli {

// Before anything else: descriptors 0 to 2 are taken, a failed write to std::cout throws, the terminal's letters are known, and
// a model that is cut short while it is in use ends the program with a message.
void set_up_process();

// Fails where something that was written to standard output has not arrived.
void flush_output();
Error output_error();  // what errno says of it

}  // namespace lapidary::cli
