// What a test can ask the software Metal device besides Metal itself.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Messages sent so far: of this selector, or all of them when it is null.
unsigned long softmetal_message_count(const char* selector);

// Command buffers committed so far before the host knew that all those before them had run.
unsigned long softmetal_commits_ahead(void);

// Lets a command buffer fail: of those committed from now on the one with this number, from 1. It does and signals nothing.
void softmetal_fail_commit(unsigned long number);

// Objects of this class that have not been freed.
long softmetal_live_objects(const char* class_name);

#ifdef __cplusplus
}
#endif
