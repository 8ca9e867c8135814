/* ask MODEL QUESTION: the answer, as it comes.
 *
 *   cc ask.c $(pkg-config --cflags --libs lapidary) -o ask && ./ask models/pebble "What is the capital of Norway?" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lapidary.h>

static lapidary_error error = LAPIDARY_INIT(lapidary_error);

static void check(lapidary_status status) {
  if (status >= 0) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

static int print(void* user, const lapidary_event* event) {
  (void)user;
  switch (event->kind) {
    case LAPIDARY_EVENT_TEXT: fputs(event->text, stdout); break;
    case LAPIDARY_EVENT_TOOL_CALL: printf("%s(%s)\n", event->text, event->arguments); break;
    case LAPIDARY_EVENT_END: putchar('\n'); break;
  }
  fflush(stdout);
  return 0; /* anything else would end the answer */
}

/* [{"role":"user","content":QUESTION}] */
static char* messages_of(const char* question) {
  char* const messages = malloc(6 * strlen(question) + 64);
  char* at;
  if (!messages) exit(1);
  at = messages + sprintf(messages, "[{\"role\":\"user\",\"content\":\"");
  for (; *question; ++question) {
    const unsigned char c = (unsigned char)*question;
    if (c == '"' || c == '\\') at += sprintf(at, "\\%c", c);
    else if (c < 32) at += sprintf(at, "\\u%04x", c);
    else *at++ = (char)c;
  }
  strcpy(at, "\"}]");
  return messages;
}

int main(int argc, char** argv) {
  lapidary_model_options options = LAPIDARY_INIT(lapidary_model_options);
  lapidary_memory_plan plan = LAPIDARY_INIT(lapidary_memory_plan);
  lapidary_sampling sampling = LAPIDARY_INIT(lapidary_sampling);
  lapidary_request request = LAPIDARY_INIT(lapidary_request);
  lapidary_model* model = NULL;
  lapidary_session* session = NULL;
  char* messages;
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL QUESTION\n", argv[0]);
    return 2;
  }
  options.context_tokens = 1024;
  check(lapidary_plan_memory(argv[1], &options, &plan, &error));
  fprintf(stderr, "%.1f MB of weights, %.1f MB beside them\n", (double)plan.weights_mapped_bytes / 1e6, (double)plan.anonymous_bytes / 1e6);
  check(lapidary_load(argv[1], &options, &model, &error));
  check(lapidary_open_session(model, &session, &error));

  messages = messages_of(argv[2]);
  sampling.given = LAPIDARY_GIVEN_TEMPERATURE; /* 0: always the likeliest token */
  request.messages = messages;
  request.sampling = &sampling;
  check(lapidary_answer(session, &request, print, NULL, &error));

  free(messages);
  check(lapidary_free_session(session, &error));
  check(lapidary_free_model(model, &error));
  return 0;
}
