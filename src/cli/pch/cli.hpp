// What nearly every file here includes.
#include <CLI/CLI.hpp>

#include <simdjson.h>
