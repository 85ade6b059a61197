/* What the program and libplimsoll_mpi.so, which it loads where an MPI launcher has started it, know of each other. The
   program itself is linked to no MPI. Every function returns 0, or an error code that `error_text` explains. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLIMSOLL_MPI_PART_VERSION 1
#define PLIMSOLL_MPI_SLOTS 8192 /* messages that are on their way at the same time */
#define PLIMSOLL_MPI_NAME_BYTES 256

struct PlimsollMpiPart {
  int version;
  const char* library; /* "Open MPI v4.1.4, ..." */
  int (*start)(int* rank, int* size);
  int (*hosts)(char* names); /* PLIMSOLL_MPI_NAME_BYTES for each rank */
  int (*send)(const void* bytes, size_t count, int to, int slot);
  int (*receive)(void* bytes, size_t count, int from, int slot);
  /* Writes to `done` the slots below `slots` whose messages have arrived, and how many these are. */
  int (*test)(int slots, int* done, int* done_count);
  /* A text to all other ranks, beside all other messages; waits for at most two seconds. */
  int (*send_failure)(const void* text, size_t count);
  /* `count`: the bytes of such a text from another rank, 0 if there is none. */
  int (*receive_failure)(void* text, size_t capacity, int* from, size_t* count);
  void (*error_text)(int error, char* text); /* PLIMSOLL_MPI_NAME_BYTES */
  int (*end)(void);
};

/* The only symbol that is looked up, and the only one that is visible. */
__attribute__((visibility("default"))) const struct PlimsollMpiPart* plimsoll_mpi_part(void);

#ifdef __cplusplus
}
#endif
