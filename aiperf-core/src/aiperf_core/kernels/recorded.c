// Plays a list of calls of the CUDA driver on some streams, without Python between them: see recorded.py.
#include <stdint.h>

// An entry: its kind, the number of its stream, and what the kind takes. `WIDTH` numbers each.
enum { LAUNCH, LAUNCH_EARLY, RECORD, WAIT, COPY, ALLOCATE, FREE, ALLOCATE_ASYNC, FREE_ASYNC, FINISH_STREAM, FINISH_EVENT, CALL, GRAPH,
       CAPTURE, END_CAPTURE, INSTANTIATE, UPDATE, SET_NODE, DESTROY_GRAPH, DESTROY_EXECUTABLE, CHOICE, AWAIT_FLAG };
#define WIDTH 14

// The entry points of the driver, in the order of `ENTRY_POINTS` in recorded.py.
typedef struct {
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*launch_ex)(const void*, void*, void**, void**);
  int (*record)(void*, void*);
  int (*wait)(void*, void*, unsigned);
  int (*copy)(uint64_t, uint64_t, uint64_t, void*);
  int (*allocate)(uint64_t*, uint64_t);
  int (*free)(uint64_t);
  int (*allocate_async)(uint64_t*, uint64_t, void*, void*);
  int (*free_async)(uint64_t, void*);
  int (*finish_stream)(void*);
  int (*finish_event)(void*);
  int (*graph)(void*, void*);
  int (*capture)(void*, int);
  int (*end_capture)(void*, void*);
  int (*instantiate)(void*, void*, uint64_t);
  int (*update)(void*, void*, void*);
  int (*set_node)(void*, void*, const void*);
  int (*destroy_graph)(void*);
  int (*destroy_executable)(void*);
} driver;

// CUlaunchAttribute and CUlaunchConfig of cuda.h.
typedef struct {
  int32_t id, pad;
  union {
    int32_t flag;
    char bytes[64];
  } value;
} attribute;

typedef struct {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  attribute* attributes;
  uint32_t count;
} config;

// CUDA_KERNEL_NODE_PARAMS_v2 and CUgraphExecUpdateResultInfo of cuda.h.
typedef struct {
  void* function;
  uint32_t grid[3], block[3], shared_bytes;
  void *parameters, *extra, *kernel, *context;
} node_parameters;

typedef struct {
  int32_t result;
  void *node, *from;
} update_result;

#define PROGRAMMATIC_STREAM_SERIALIZATION 6
#define CAPTURE_MODE_RELAXED 2
#define POINTER(number) ((void*)(uintptr_t)(number))

static int launch_early(const driver* cu, const int64_t* at, void* stream) {
  attribute early = {.id = PROGRAMMATIC_STREAM_SERIALIZATION, .value.flag = 1};
  config how = {{(uint32_t)at[1], (uint32_t)at[2], (uint32_t)at[3]},
                {(uint32_t)at[4], (uint32_t)at[5], (uint32_t)at[6]},
                (uint32_t)at[7],
                stream,
                &early,
                1};
  return cu->launch_ex(&how, POINTER(at[0]), POINTER(at[8]), 0);
}

static int set_node(const driver* cu, const int64_t* at) {
  const int64_t* launch = at + 2;
  const node_parameters how = {POINTER(launch[0]),
                               {(uint32_t)launch[1], (uint32_t)launch[2], (uint32_t)launch[3]},
                               {(uint32_t)launch[4], (uint32_t)launch[5], (uint32_t)launch[6]},
                               (uint32_t)launch[7],
                               POINTER(launch[8]),
                               0,
                               0,
                               0};
  return cu->set_node(*(void**)POINTER(at[0]), POINTER(at[1]), &how);
}

static int update(const driver* cu, void* executable, void* graph) {
  update_result unused;
  return cu->update(executable, graph, &unused);
}

static int play_one(const driver* cu, int64_t kind, const int64_t* at, void* stream) {
  switch (kind) {
    case LAUNCH:
      return cu->launch(POINTER(at[0]), (unsigned)at[1], (unsigned)at[2], (unsigned)at[3], (unsigned)at[4], (unsigned)at[5],
                        (unsigned)at[6], (unsigned)at[7], stream, POINTER(at[8]), 0);
    case LAUNCH_EARLY:
      return launch_early(cu, at, stream);
    case RECORD:
      return cu->record(POINTER(at[0]), stream);
    case WAIT:
      return cu->wait(stream, POINTER(at[0]), 0);
    case COPY:
      return cu->copy((uint64_t)at[0], (uint64_t)at[1], (uint64_t)at[2], stream);
    case ALLOCATE:
      return cu->allocate(POINTER(at[0]), (uint64_t)at[1]);
    case FREE:
      return cu->free(*(uint64_t*)POINTER(at[0]));
    case ALLOCATE_ASYNC:
      return cu->allocate_async(POINTER(at[0]), (uint64_t)at[1], POINTER(at[2]), stream);
    case FREE_ASYNC:
      return cu->free_async(*(uint64_t*)POINTER(at[0]), stream);
    case FINISH_STREAM:
      return cu->finish_stream(stream);
    case FINISH_EVENT:
      return cu->finish_event(POINTER(at[0]));
    case CALL:
      ((void (*)(const int64_t*))POINTER(at[0]))(POINTER(at[1]));
      return 0;
    case GRAPH:
      return cu->graph(*(void**)POINTER(at[0]), stream);
    case CHOICE:
      return cu->graph(((void**)POINTER(at[1]))[*(const int32_t*)POINTER(at[0])], stream);
    case AWAIT_FLAG:
      while (!*(const volatile int32_t*)POINTER(at[0])) {
      }
      return 0;
    case CAPTURE:
      return cu->capture(stream, CAPTURE_MODE_RELAXED);
    case END_CAPTURE:
      return cu->end_capture(stream, POINTER(at[0]));
    case INSTANTIATE:
      return cu->instantiate(POINTER(at[0]), *(void**)POINTER(at[1]), 0);
    case UPDATE:
      return update(cu, *(void**)POINTER(at[0]), *(void**)POINTER(at[1]));
    case SET_NODE:
      return set_node(cu, at);
    case DESTROY_GRAPH:
      return cu->destroy_graph(*(void**)POINTER(at[0]));
    case DESTROY_EXECUTABLE:
      return cu->destroy_executable(*(void**)POINTER(at[0]));
  }
  return 1;  // CUDA_ERROR_INVALID_VALUE
}

// Returns 0, or the driver's status of the first entry that failed, with one more than its number in the upper 32 bits.
int64_t play(const int64_t* entry_points, const int64_t* entries, int64_t count, const int64_t* streams) {
  const driver* cu = (const driver*)entry_points;
  for (int64_t number = 0; number < count; ++number) {
    const int64_t* entry = entries + WIDTH * number;
    int status = play_one(cu, entry[0], entry + 2, POINTER(streams[entry[1]]));
    if (status) return (number + 1) << 32 | status;
  }
  return 0;
}
