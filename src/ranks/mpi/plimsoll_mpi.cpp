// libplimsoll_mpi.so: MPI behind the functions of part.h. All of them are called by one thread.
#include <mpi.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <thread>
#include <vector>

#include "ranks/mpi/part.h"

namespace {

constexpr int kData = 0, kFailure = 1;

MPI_Comm ranks = MPI_COMM_NULL;
MPI_Request requests[PLIMSOLL_MPI_SLOTS];
int own_rank = 0, rank_count = 1;

// MPI starts threads of its own. They must not take the signals that the program waits for in a thread of its own.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// At most PLIMSOLL_MPI_NAME_BYTES, with the zero at its end.
void copy_text(const char* from, char* to) {
  const size_t count = std::min(std::strlen(from), size_t{PLIMSOLL_MPI_NAME_BYTES - 1});
  std::memcpy(to, from, count);
  to[count] = 0;
}

int start(int* rank, int* size) {
  const BlockedSignals blocked;
  int provided = 0;
  if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided)) return error;
  if (const int error = MPI_Comm_dup(MPI_COMM_WORLD, &ranks)) return error;
  if (const int error = MPI_Comm_set_errhandler(ranks, MPI_ERRORS_RETURN)) return error;
  MPI_Comm_rank(ranks, &own_rank);
  MPI_Comm_size(ranks, &rank_count);
  for (MPI_Request& request : requests) request = MPI_REQUEST_NULL;
  *rank = own_rank;
  *size = rank_count;
  return 0;
}

int hosts(char* names) {
  char own[PLIMSOLL_MPI_NAME_BYTES] = {};
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  if (const int error = MPI_Get_processor_name(name, &length)) return error;
  copy_text(name, own);
  return MPI_Allgather(own, sizeof own, MPI_CHAR, names, sizeof own, MPI_CHAR, ranks);
}

int send(const void* bytes, size_t count, int to, int slot) {
  if (count > INT_MAX) return MPI_ERR_COUNT;
  return MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, to, kData, ranks, &requests[slot]);
}

int receive(void* bytes, size_t count, int from, int slot) {
  if (count > INT_MAX) return MPI_ERR_COUNT;
  return MPI_Irecv(bytes, static_cast<int>(count), MPI_BYTE, from, kData, ranks, &requests[slot]);
}

int test(int slots, int* done, int* done_count) {
  const int error = MPI_Testsome(slots, requests, done_count, done, MPI_STATUSES_IGNORE);
  if (*done_count == MPI_UNDEFINED) *done_count = 0;
  return error;
}

int send_failure(const void* text, size_t count) {
  std::vector<MPI_Request> sent;
  for (int other = 0; other < rank_count; ++other) {
    if (other == own_rank) continue;
    sent.emplace_back();
    if (const int error = MPI_Isend(text, static_cast<int>(count), MPI_BYTE, other, kFailure, ranks, &sent.back())) {
      return error;
    }
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int arrived = 0; !arrived && std::chrono::steady_clock::now() < end;) {
    if (const int error = MPI_Testall(static_cast<int>(sent.size()), sent.data(), &arrived, MPI_STATUSES_IGNORE)) {
      return error;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

int receive_failure(void* text, size_t capacity, int* from, size_t* count) {
  *count = 0;
  int there = 0;
  MPI_Status status;
  if (const int error = MPI_Iprobe(MPI_ANY_SOURCE, kFailure, ranks, &there, &status)) return error;
  if (!there) return 0;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (static_cast<size_t>(bytes) > capacity) return MPI_ERR_TRUNCATE;
  *from = status.MPI_SOURCE;
  *count = static_cast<size_t>(bytes);
  return MPI_Recv(text, bytes, MPI_BYTE, status.MPI_SOURCE, kFailure, ranks, MPI_STATUS_IGNORE);
}

void error_text(int error, char* text) {
  char long_text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, long_text, &length);
  copy_text(long_text, text);
}

int end() { return MPI_Finalize(); }

}  // namespace

extern "C" const PlimsollMpiPart* plimsoll_mpi_part() {
  static char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(library, &length);
  static const PlimsollMpiPart part = {.version = PLIMSOLL_MPI_PART_VERSION,
                                       .library = library,
                                       .start = start,
                                       .hosts = hosts,
                                       .send = send,
                                       .receive = receive,
                                       .test = test,
                                       .send_failure = send_failure,
                                       .receive_failure = receive_failure,
                                       .error_text = error_text,
                                       .end = end};
  return &part;
}
