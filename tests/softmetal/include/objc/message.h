// Stands in for Apple's header. Callers cast these to the type of the method they want.
#pragma once

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif
void objc_msgSend(void);
void objc_msgSend_stret(void);
void objc_msgSend_fpret(void);
#ifdef __cplusplus
}
#endif
