/* Lapidary: runs Gemma 4 checkpoints, embedded. C99.
 *
 * Handles. A model holds the weights and the memory of as many sessions as were asked for; a session is one text in the making: its
 * tokens, their K/V, and the answer in progress. Sessions are freed before their model.
 *
 * Threads. Functions of a model may be called from any thread at any time, but for lapidary_free_model(). A session is used by one
 * thread at a time; a second one, or a callback that uses the session it was called for, gets LAPIDARY_ERROR_BUSY.
 * lapidary_cancel() alone may be called at any time, from any thread and from a signal handler. Sessions of one model take turns: a
 * turn is a chunk of a prompt or a round. Nothing is locked while a callback runs. There is no global state.
 *
 * Ownership. What is passed in is read during the call and never kept. Lists and texts are written to memory of the caller, with its
 * capacity; where that is too small the call fails with LAPIDARY_ERROR_ROOM and says how much is needed, so a first call may pass
 * NULL and 0. Pointers that a session gives (events, rows) are valid until the next call with that session.
 *
 * Structs begin with their size, which the caller sets: LAPIDARY_INIT(type), or zeros and then `size`. Zero is the default of every
 * field. A library that is newer than its caller takes what is missing as zero and fills no more than there is; one that is older
 * refuses fields it does not know unless they are zero.
 *
 * Errors. Every function that can fail returns a status: LAPIDARY_OK and LAPIDARY_END are no errors, all errors are negative. The last
 * argument may point to a lapidary_error for the message, "[where] what, expected X, got Y"; it may be NULL. A call that fails has
 * changed nothing unless its comment says so.
 *
 * Undefined: pointers to memory that is not there or too short, a model that has been freed, freeing a session or a model while another
 * thread uses it. A pointer to something else, NULL, and a session that has been freed (as long as its model is there and has opened no
 * other one since) are refused.
 */
#ifndef LAPIDARY_H
#define LAPIDARY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LAPIDARY_API __attribute__((visibility("default")))
#else
#define LAPIDARY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LAPIDARY_VERSION "0.1.0"
#define LAPIDARY_ABI 4 /* grows with every change of a struct or function below */

/* A struct with its size and nothing else set: lapidary_error error = LAPIDARY_INIT(lapidary_error); */
#ifdef __cplusplus
#define LAPIDARY_INIT(type) ([] { type value{}; value.size = sizeof(type); return value; }())
#else
#define LAPIDARY_INIT(type) {.size = sizeof(type)}
#endif

typedef struct lapidary_model lapidary_model;
typedef struct lapidary_session lapidary_session;

typedef enum lapidary_status {
  LAPIDARY_OK = 0,
  LAPIDARY_END = 1,                /* the answer has ended, there is nothing more */
  LAPIDARY_ERROR_USAGE = -1,       /* an argument, a handle, or a call out of order */
  LAPIDARY_ERROR_BUSY = -2,        /* the session is being used */
  LAPIDARY_ERROR_ROOM = -3,        /* the memory given is too small */
  LAPIDARY_ERROR_MEMORY = -4,      /* there is not enough, or more than allowed would be needed */
  LAPIDARY_ERROR_IO = -5,          /* a file or the machine */
  LAPIDARY_ERROR_DATA = -6,        /* a file or a JSON text is broken, or does not belong here */
  LAPIDARY_ERROR_UNSUPPORTED = -7, /* right, but nothing that this library can do */
  LAPIDARY_ERROR_INTERNAL = -8     /* a mistake of this library */
} lapidary_status;

typedef struct lapidary_error {
  size_t size;
  int32_t status;
  char message[500]; /* ends with a zero; empty where there is no error */
} lapidary_error;

/* Of the library that is linked; a program may compare them with LAPIDARY_VERSION and LAPIDARY_ABI. */
LAPIDARY_API const char* lapidary_version(void);
LAPIDARY_API int32_t lapidary_abi(void);
/* "usage", "busy", ...; never NULL. */
LAPIDARY_API const char* lapidary_status_name(int32_t status);

/* ---- Models ---- */

enum { LAPIDARY_NUMERIC_USUAL = 0, LAPIDARY_NUMERIC_EXACT = 1, LAPIDARY_NUMERIC_FAST = 2 };
/* How layers that keep every position store K/V. Usual: float32 in the exact mode, bfloat16 in the fast one, and neither fits the other
 * mode. Q8 and Q4 fit both: 8 bits for long contexts; values of 4 bits, at some loss, for the longest. */
enum { LAPIDARY_KV_USUAL = 0, LAPIDARY_KV_F32 = 1, LAPIDARY_KV_BF16 = 2, LAPIDARY_KV_Q8 = 3, LAPIDARY_KV_Q4 = 4 };
enum { LAPIDARY_DRAFT_AUTOMATIC = 0, LAPIDARY_DRAFT_MTP = 1, LAPIDARY_DRAFT_LOOKUP = 2, LAPIDARY_DRAFT_NONE = 3,
       LAPIDARY_DRAFT_DFLASH = 4 };
enum { /* lapidary_model_options.flags; all but LAPIDARY_WARM_UP for the backend "cpu" alone */
  LAPIDARY_PIN_THREADS = 1, /* each thread of the model stays on a core of its own; the ones that call are yours */
  LAPIDARY_LOCK_MEMORY = 2, /* nothing of the model is paged out; LAPIDARY_ERROR_MEMORY where the system does not allow it */
  LAPIDARY_WARM_UP = 4,     /* all memory is touched and some rounds are played at load: the first token waits for nothing */
  LAPIDARY_SMALL_PAGES = 8  /* the system is not asked for huge pages */
};

typedef struct lapidary_model_options {
  size_t size;
  const char* backend;         /* "cpu", "metal"; NULL = the best that was built in */
  const char* assistant;       /* folder of a drafter; NULL = look beside the model */
  uint64_t memory_limit_bytes; /* on anonymous memory; 0 = none */
  int32_t context_tokens;      /* that a session holds; 0 = 4096, or less where the model ends earlier */
  int32_t chunk_tokens;        /* of a prompt in one pass; 0 = as many as the model's graph takes */
  int32_t sessions;            /* at a time; 0 = 1 */
  int32_t threads;             /* 0 = one per core */
  int32_t numeric;             /* LAPIDARY_NUMERIC_... */
  int32_t draft;               /* LAPIDARY_DRAFT_...: changes the speed, never a token; a session may use less of it */
  int32_t draft_tokens;        /* 1 to 7; 0 = chosen round by round */
  uint32_t flags;              /* LAPIDARY_PIN_THREADS and so on */
  int32_t image_tokens;        /* the most that a picture takes of the context: 70, 140, 280, 560 or 1120; 0 = as the checkpoint has it */
  int32_t kv;                  /* LAPIDARY_KV_... */
} lapidary_model_options;

typedef struct lapidary_memory_plan {
  size_t size;
  uint64_t weights_mapped_bytes; /* in the page cache */
  uint64_t anonymous_bytes;      /* the sum of what follows */
  uint64_t kv_bytes;             /* of all sessions; committed by use */
  uint64_t arena_bytes;
  uint64_t constants_bytes;
  uint64_t repacked_bytes;
  uint64_t room_bytes;
  uint64_t text_bytes;           /* tokenizer, grammars, index of repetitions */
  uint64_t tower_bytes;          /* for pictures and sounds; committed by use */
} lapidary_memory_plan;

enum { LAPIDARY_SEES = 1, LAPIDARY_HEARS = 2 }; /* lapidary_model_info.senses */

typedef struct lapidary_model_info {
  size_t size;
  int32_t vocab, hidden, layers;
  int32_t context_tokens, chunk_tokens, sessions, threads;
  int32_t round_tokens;          /* the most that lapidary_next() gives */
  int32_t has_assistant;
  int32_t numeric;               /* LAPIDARY_NUMERIC_EXACT or _FAST */
  int32_t senses;                /* LAPIDARY_SEES: takes pictures and videos; LAPIDARY_HEARS: sounds */
  int32_t image_tokens;          /* the most of a picture, where nothing else is said */
  int32_t kv;                    /* LAPIDARY_KV_..., never _USUAL */
  int32_t reserved;              /* 0 */
} lapidary_model_info;

/* What a model would need; nothing of it is allocated. `options` may be NULL, here and below. */
LAPIDARY_API lapidary_status lapidary_plan_memory(const char* folder, const lapidary_model_options* options, lapidary_memory_plan* plan,
                                                  lapidary_error* error);
/* Maps the checkpoint in `folder` and prepares everything that a text needs. A library that was cut for one model (lapidary cut --library)
 * takes the path of its weights, or NULL where they still lie where they were written. */
LAPIDARY_API lapidary_status lapidary_load(const char* folder, const lapidary_model_options* options, lapidary_model** model,
                                           lapidary_error* error);
/* NULL is fine. Refused while sessions are open. */
LAPIDARY_API lapidary_status lapidary_free_model(lapidary_model* model, lapidary_error* error);
LAPIDARY_API lapidary_status lapidary_describe(const lapidary_model* model, lapidary_model_info* info, lapidary_error* error);

/* ---- Text ---- */

enum {
  LAPIDARY_TOKENIZE_SPECIALS = 1, /* "<|turn>" in the text is that token; for templates, never for what a user wrote */
  LAPIDARY_TOKENIZE_BOS = 2,      /* begin with <bos>, as a text without a chat template should */
  LAPIDARY_DETOKENIZE_SPECIALS = 1 /* special tokens by their names, otherwise they are left out */
};

/* How what the model writes is to be read. */
enum { LAPIDARY_READ_PLAIN = 0, LAPIDARY_READ_ANSWER = 1, LAPIDARY_READ_ANSWER_IN_THOUGHT = 2 };

/* Any bytes. *count: how many ids there are, whether they fit or not. */
LAPIDARY_API lapidary_status lapidary_tokenize(const lapidary_model* model, const char* text, size_t text_bytes, uint32_t flags,
                                               int32_t* ids, size_t capacity, size_t* count, lapidary_error* error);
/* UTF-8, without a zero at the end. */
LAPIDARY_API lapidary_status lapidary_detokenize(const lapidary_model* model, const int32_t* ids, size_t count, uint32_t flags,
                                                 char* text, size_t capacity, size_t* text_bytes, lapidary_error* error);
/* Messages to the prompt that the model was trained on. messages: JSON, a list of {role, content, reasoning?, tool_calls?, ...}; tools:
 * JSON, a list of {type, function}, or NULL. reading: LAPIDARY_READ_..., may be NULL. */
LAPIDARY_API lapidary_status lapidary_render(const lapidary_model* model, const char* messages, const char* tools, int32_t think,
                                             int32_t* ids, size_t capacity, size_t* count, int32_t* reading, lapidary_error* error);

/* ---- Sessions ---- */

/* Takes one of the model's sessions, with no text in it. */
LAPIDARY_API lapidary_status lapidary_open_session(lapidary_model* model, lapidary_session** session, lapidary_error* error);
/* NULL is fine. */
LAPIDARY_API lapidary_status lapidary_free_session(lapidary_session* session, lapidary_error* error);

/* Who drafts for the session's answers from the next one on: LAPIDARY_DRAFT_... of what the model was loaded with, and how many tokens, as
 * in lapidary_model_options, which a session begins with. A fork has what its session has. */
LAPIDARY_API lapidary_status lapidary_set_draft(lapidary_session* session, int32_t draft, int32_t draft_tokens, lapidary_error* error);

/* The tokens whose K/V are there. The last token of an answer is not among them until something follows it. */
LAPIDARY_API lapidary_status lapidary_tokens(lapidary_session* session, int32_t* ids, size_t capacity, size_t* count,
                                             lapidary_error* error);
/* Forgets all from `length` tokens on. Refused where sliding layers no longer have what comes before: they keep a window. Like the
 * functions below up to lapidary_restore(), only while no answer is in progress. */
LAPIDARY_API lapidary_status lapidary_rollback(lapidary_session* session, size_t length, lapidary_error* error);
/* Another session of the model, with the first `length` tokens of this one. */
LAPIDARY_API lapidary_status lapidary_fork(lapidary_session* session, size_t length, lapidary_session** fork, lapidary_error* error);
/* Appends tokens and gives what the model makes of each: logits [count, vocab] and hidden rows after the final norm [count, hidden];
 * either may be NULL with capacity 0, in floats. Other sessions wait until it is done. */
LAPIDARY_API lapidary_status lapidary_rows(lapidary_session* session, const int32_t* ids, size_t count, float* logits,
                                           size_t logits_capacity, float* hidden, size_t hidden_capacity, lapidary_error* error);
/* Tokens and K/V to a file, which is there as a whole or not at all. It belongs to the checkpoint, backend, numeric mode and format of
 * K/V that it was made with. */
LAPIDARY_API lapidary_status lapidary_save(lapidary_session* session, const char* path, lapidary_error* error);
/* Replaces what the session had. A file that is damaged or belongs to something else is refused; where the damage is in the K/V
 * themselves, the session is empty then. */
LAPIDARY_API lapidary_status lapidary_restore(lapidary_session* session, const char* path, lapidary_error* error);

/* ---- Answers ---- */

typedef struct lapidary_bias {
  int32_t id;
  float value; /* added to the logit */
} lapidary_bias;

enum { /* lapidary_sampling.given: which fields count; the others are as the checkpoint recommends */
  LAPIDARY_GIVEN_TEMPERATURE = 1,
  LAPIDARY_GIVEN_TOP_P = 2,
  LAPIDARY_GIVEN_MIN_P = 4,
  LAPIDARY_GIVEN_REPETITION = 8,
  LAPIDARY_GIVEN_TOP_K = 16,
  LAPIDARY_GIVEN_SEED = 32 /* otherwise a random one */
};

typedef struct lapidary_sampling {
  size_t size;
  uint64_t seed;
  const lapidary_bias* bias;
  size_t bias_count;
  uint32_t given;     /* LAPIDARY_GIVEN_... */
  float temperature;  /* 0 = always the likeliest token */
  int32_t top_k;      /* 0 = all */
  float top_p, min_p;
  float repetition;   /* 1 = none */
  float presence, frequency;
} lapidary_sampling;

enum { /* lapidary_request.flags */
  LAPIDARY_THINK = 1,        /* the model may think before it answers; for messages */
  LAPIDARY_JSON = 2,         /* the answer is JSON */
  LAPIDARY_STRICT_TOOLS = 4, /* calls fit the schemas of `tools` */
  LAPIDARY_LOGPROBS = 8,     /* for lapidary_logprobs() */
  LAPIDARY_ROWS = 16         /* for lapidary_logits() and lapidary_hidden() */
};

/* A picture, a sound or a video: the bytes of a file, or what the caller has decoded. */
enum {
  LAPIDARY_IMAGE_FILE = 1, /* PNG, JPEG, WebP, GIF */
  LAPIDARY_AUDIO_FILE = 2, /* WAV, FLAC, OGG, MP3 */
  LAPIDARY_VIDEO_FILE = 3,
  LAPIDARY_PIXELS = 4,     /* of a picture: 8 bits of red, green and blue each, [height, width, 3] */
  LAPIDARY_SAMPLES = 5     /* of a sound: floats from -1 to 1, one channel, 16000 a second */
};

typedef struct lapidary_medium {
  size_t size;
  const void* data;
  size_t data_bytes;
  int32_t kind;          /* LAPIDARY_IMAGE_FILE and so on */
  int32_t image_tokens;  /* the most of a picture, as in lapidary_model_options; 0 = the model's */
  int32_t width, height; /* of pixels */
} lapidary_medium;

/* What to answer, and how: messages, or ids of a prompt. Of a prompt only what the session does not have yet is computed. */
typedef struct lapidary_request {
  size_t size;
  const char* messages;       /* as for lapidary_render(), or NULL */
  const char* tools;          /* likewise */
  const int32_t* ids;         /* where there are no messages */
  size_t id_count;
  const char* schema;         /* JSON Schema that the answer fits, or NULL */
  const char* const* stops;   /* texts to end before */
  size_t stop_count;
  const lapidary_sampling* sampling; /* NULL = as the checkpoint recommends */
  uint32_t flags;
  int32_t reading;            /* of ids: LAPIDARY_READ_... */
  int32_t max_tokens;         /* 0 = until the context is full */
  int32_t top_logprobs;       /* alternatives per token, 0 to 1000 */
  const lapidary_medium* const* media; /* by order of the parts {"type": "image"}, {"type": "audio"}, {"type": "video"} in the messages */
  size_t media_count;
} lapidary_request;

enum { LAPIDARY_EVENT_TEXT = 1, LAPIDARY_EVENT_THOUGHT = 2, LAPIDARY_EVENT_TOOL_CALL = 3, LAPIDARY_EVENT_END = 4 };
enum {
  LAPIDARY_ENDING_NONE = 0,
  LAPIDARY_ENDING_STOP = 1,      /* the model has finished */
  LAPIDARY_ENDING_STOP_TEXT = 2,
  LAPIDARY_ENDING_TOOL_CALL = 3, /* it has called tools */
  LAPIDARY_ENDING_MAX_TOKENS = 4,
  LAPIDARY_ENDING_CONTEXT = 5,   /* the context is full */
  LAPIDARY_ENDING_CANCELLED = 6
};

typedef struct lapidary_event {
  size_t size;
  const char* text;      /* of text and thoughts, whole characters; of a call the name. UTF-8 with a zero behind it */
  size_t text_bytes;
  const char* arguments; /* of a call: JSON */
  size_t arguments_bytes;
  int32_t kind;          /* LAPIDARY_EVENT_... */
  int32_t ending;        /* of the last event: LAPIDARY_ENDING_... */
} lapidary_event;

/* Begins an answer, and ends the one before it. Nothing is computed yet. */
LAPIDARY_API lapidary_status lapidary_begin(lapidary_session* session, const lapidary_request* request, lapidary_error* error);
/* Computes the prompt, which otherwise the first token does. A failure ends the answer; so it is below. */
LAPIDARY_API lapidary_status lapidary_prefill(lapidary_session* session, lapidary_error* error);
/* The tokens of the next round, at most lapidary_model_info.round_tokens, for which there must be room; LAPIDARY_END where there are
 * none. What they say is kept for lapidary_pull(). */
LAPIDARY_API lapidary_status lapidary_next(lapidary_session* session, int32_t* ids, size_t capacity, size_t* count,
                                           lapidary_error* error);
/* The next event; plays turns until there is one. After the last one, LAPIDARY_EVENT_END, it is LAPIDARY_END. */
LAPIDARY_API lapidary_status lapidary_pull(lapidary_session* session, lapidary_event* event, lapidary_error* error);

/* Called for each event, which is valid until it returns. Anything but 0 cancels the answer, which still has its last event then. */
typedef int (*lapidary_on_event)(void* user, const lapidary_event* event);
/* lapidary_begin() and then all events. */
LAPIDARY_API lapidary_status lapidary_answer(lapidary_session* session, const lapidary_request* request, lapidary_on_event on_event,
                                             void* user, lapidary_error* error);

/* Ends the answer in progress soon, as LAPIDARY_ENDING_CANCELLED. Takes no lock. */
LAPIDARY_API lapidary_status lapidary_cancel(lapidary_session* session);
/* Ends the answer in progress now, by the thread that uses the session, and forgets its events. */
LAPIDARY_API lapidary_status lapidary_end(lapidary_session* session, lapidary_error* error);

typedef struct lapidary_logprob {
  int32_t id;
  float logprob; /* natural logarithm, before penalties and temperature */
} lapidary_logprob;

/* Of the tokens of the last round, counted from 0: what each was chosen from. The first is that of the prompt's end. */
LAPIDARY_API lapidary_status lapidary_logits(lapidary_session* session, size_t token, const float** logits, size_t* count,
                                             lapidary_error* error);
LAPIDARY_API lapidary_status lapidary_hidden(lapidary_session* session, size_t token, const float** hidden, size_t* count,
                                             lapidary_error* error);
/* The token itself first, then the likeliest. */
LAPIDARY_API lapidary_status lapidary_logprobs(lapidary_session* session, size_t token, lapidary_logprob* logprobs, size_t capacity,
                                               size_t* count, lapidary_error* error);

/* Times, rates and drafts of the last answer, and its seed: JSON, without a zero at the end. */
LAPIDARY_API lapidary_status lapidary_statistics(lapidary_session* session, char* json, size_t capacity, size_t* json_bytes,
                                                 lapidary_error* error);

#ifdef __cplusplus
}
#endif

#endif
