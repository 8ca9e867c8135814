// Stands in for Apple's header where there is no SDK: tools/check-darwin.
#pragma once

typedef struct os_log_s* os_log_t;

#define OS_LOG_CATEGORY_POINTS_OF_INTEREST "PointsOfInterest"

extern "C" os_log_t os_log_create(const char* subsystem, const char* category);
