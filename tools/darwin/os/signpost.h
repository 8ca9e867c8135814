// Stands in for Apple's header where there is no SDK: tools/check-darwin. There these are macros, and take literals only.
#pragma once

#include <os/log.h>
#include <stdint.h>

typedef uint64_t os_signpost_id_t;

extern "C" os_signpost_id_t os_signpost_id_generate(os_log_t log);
extern "C" void os_signpost_begin(os_log_t log, os_signpost_id_t id, const char* name);
extern "C" void os_signpost_end(os_log_t log, os_signpost_id_t id, const char* name);

#define os_signpost_interval_begin(log, id, name) os_signpost_begin(log, id, "" name)
#define os_signpost_interval_end(log, id, name) os_signpost_end(log, id, "" name)
