// The same for the tests of Metal.
#include "support/pch/tests.hpp"

#include <Metal/Metal.hpp>
