// What every test file includes, compiled once per test program.
#include "support/reporter.hpp"
