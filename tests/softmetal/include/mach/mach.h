// Stands in for Apple's header: two numbers that metal-cpp passes on.
#pragma once

typedef int kern_return_t;
typedef unsigned int task_id_token_t;
