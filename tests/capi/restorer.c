/* restorer MODEL FILE: restores a saved session, goes on after one more token and prints what it generates. C99, as any program of others
 * would be, with the shared library. */
#include <stdio.h>
#include <stdlib.h>

#include "lapidary.h"

static lapidary_error error = LAPIDARY_INIT(lapidary_error);

static void check(lapidary_status status) {
  if (status >= 0) return;
  fprintf(stderr, "%s: %s\n", lapidary_status_name(status), error.message);
  exit(1);
}

int main(int argc, char** argv) {
  lapidary_model_options options = LAPIDARY_INIT(lapidary_model_options);
  lapidary_sampling sampling = LAPIDARY_INIT(lapidary_sampling);
  lapidary_request request = LAPIDARY_INIT(lapidary_request);
  lapidary_model* model = NULL;
  lapidary_session* session = NULL;
  int32_t ids[300], round[8];
  size_t count = 0, i;
  if (argc != 3 || lapidary_abi() != LAPIDARY_ABI) return 2;
  options.context_tokens = 256;
  options.threads = 2;
  check(lapidary_load(argv[1], &options, &model, &error));
  check(lapidary_open_session(model, &session, &error));
  check(lapidary_restore(session, argv[2], &error));
  check(lapidary_tokens(session, ids, 299, &count, &error));
  ids[count++] = 100;
  sampling.given = LAPIDARY_GIVEN_TEMPERATURE; /* 0 */
  request.ids = ids;
  request.id_count = count;
  request.sampling = &sampling;
  request.max_tokens = 20;
  check(lapidary_begin(session, &request, &error));
  for (;;) {
    const lapidary_status status = lapidary_next(session, round, 8, &count, &error);
    check(status);
    if (status == LAPIDARY_END) break;
    for (i = 0; i < count; ++i) printf("%d\n", (int)round[i]);
  }
  check(lapidary_free_session(session, &error));
  check(lapidary_free_model(model, &error));
  return 0;
}
