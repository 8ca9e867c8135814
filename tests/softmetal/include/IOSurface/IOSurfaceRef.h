// Stands in for Apple's header: an opaque handle.
#pragma once

typedef struct __IOSurface* IOSurfaceRef;
