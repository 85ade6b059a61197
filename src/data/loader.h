// Loader: threads that fill batches ahead of the step, in the order of a BatchSequence.
//
// Invariant: which batches come, in which order and with which bytes, does not depend on the number of workers. All
// memory is allocated at construction, except the temporary memory for reading a page and decoding its image, which
// `host_bytes` counts at its largest.
//
//   Loader loader(dataset, sequence, shape, 0, {.workers = 2});
//   while (const Batch* batch = loader.next()) step(*batch);   // valid until the next call
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/byte_gate.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/sampler.h"

namespace plimsoll {

// The largest number of threads that a loader may have.
inline constexpr int kMaxWorkers = 64;

struct LoaderOptions {
  int workers = 2;  // 0: `next` loads on the caller's thread; at most kMaxWorkers
  int slots = 0;    // number of batch buffers; 0: workers + held (these in use while each worker fills another)
  int held = 1;     // how many further calls of `next` a batch stays valid for
  // Images are decoded only for every `images_every`-th batch, beginning with batch `images_from`; other batches hold
  // zeros.
  int images_every = 1, images_from = 0;
};

// If more pages than this in a row cannot be read, the pages are not at fault: their disk or folder is gone.
inline constexpr int kMostBadPagesInARow = 20;

// A page that could be read when the data set was opened, and cannot be read now; the message names it.
class BadPageError : public DataError {
 public:
  BadPageError(std::uint32_t page, Problem problem) : DataError(std::move(problem)), page_(page) {}
  std::uint32_t page() const { return page_; }  // index in the data set's source

 private:
  std::uint32_t page_;
};

class Loader {
 public:
  // `dataset` and `sequence` must outlive the loader. `shape` must hold the sequence's largest micro-batch; pixels are
  // always bytes. If the system starts fewer threads than it was asked for, a warning says so, and the loader works
  // with those, or without any.
  Loader(const Dataset& dataset, BatchSequence& sequence, const BatchShape& shape, std::int64_t pad_to,
         LoaderOptions options);
  // Stops the workers and waits for them (at most for the page that each is loading).
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch, valid until the next call (or until as many as are held); nullptr at the end, or if
  // `interrupt` is pending and the batch is not ready yet. Rethrows, in order, what a worker threw while filling this
  // batch, a BadPageError for a page that cannot be read; every later call throws it again. A batch without samples
  // represents an update whose pages are all left out.
  const Batch* next(const Interrupt* interrupt = nullptr);
  // Returns what `next` will return if ready, else (or at the end, or for an error) nullptr. The batch in use stays.
  const Batch* peek();

  // The most host memory that such a loader ever holds, including the data set's and the sequence's.
  static std::uint64_t host_bytes(const Dataset& dataset, const BatchSequence& sequence, const BatchShape& shape,
                                  LoaderOptions options);

 private:
  struct Slot {
    Slot(const BatchShape& shape, const PixelValues& values) : batch(shape, values) {}
    Batch batch;
    bool ready = false;
    std::exception_ptr error;
  };
  struct Worker {
    Dataset::Scratch scratch;
    EncodedExample example;
    BatchSequence::Item item;
    std::thread thread;
  };

  void start_workers();
  void stop();
  // Returns false if filling was abandoned, because the loader ends or `interrupt` is pending.
  bool fill(std::uint64_t index, Worker& worker, Slot& slot, const Interrupt* interrupt);
  // Returns the filled slot of the next micro-batch; nullptr: interrupted.
  Slot* next_slot(const Interrupt* interrupt);
  void run(Worker& worker);
  Slot& slot_of(std::uint64_t index) { return *slots_[index % slots_.size()]; }

  const Dataset& dataset_;
  BatchSequence& sequence_;
  std::int64_t pad_to_;
  int held_, images_every_, images_from_;
  ByteGate decoding_{Dataset::kDecodingBytes};
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Worker> workers_;

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  std::uint64_t next_fill_ = 0;  // the first micro-batch that no worker has taken
  std::uint64_t next_use_ = 0;   // the next one to return
  std::uint64_t released_ = 0;   // handed out and returned: next_use_, less the batches in use
  std::atomic<bool> stop_{false};
};

}  // namespace plimsoll
