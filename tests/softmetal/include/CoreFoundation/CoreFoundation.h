// Stands in for Apple's umbrella header: the few types that metal-cpp names. It also relies on INFINITY from here.
#pragma once

#include <math.h>
#include <stdint.h>

typedef const void* CFTypeRef;
typedef double CFTimeInterval;
