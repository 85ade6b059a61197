#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"

namespace plimsoll {
namespace {

int worker_count(LoaderOptions options) { return std::max(1, options.workers); }

int slot_count(LoaderOptions options) {
  if (options.workers == 0) return options.held;
  // Some batches are in use while each worker fills another.
  return std::max(1 + options.held, options.slots > 0 ? options.slots : options.workers + options.held);
}

// Waiting batches keep pixels as bytes, a quarter of the size of floats.
BatchShape with_pixel_bytes(BatchShape shape) {
  shape.pixel_type = DType::kU8;
  return shape;
}

}  // namespace

Loader::Loader(const Dataset& dataset, BatchSequence& sequence, const BatchShape& shape, std::int64_t pad_to,
               LoaderOptions options)
    : dataset_(dataset),
      sequence_(sequence),
      pad_to_(pad_to),
      held_(options.held),
      images_every_(options.images_every),
      images_from_(options.images_from) {
  check(options.workers >= 0 && options.workers <= kMaxWorkers,
        [&] { return fmt::format("a loader has 0 to {} workers, not {}", kMaxWorkers, options.workers); });
  check(sequence.samples_per_micro_batch() <= shape.max_samples, "a batch has room for a micro-batch's samples");
  check(shape.image.size == 0 ||
            static_cast<std::size_t>(shape.image.pixels()) == dataset.image_processor().pixel_count(),
        "a batch's images have the size that the image processor makes");
  for (int i = 0; i < slot_count(options); ++i) {
    slots_.push_back(std::make_unique<Slot>(with_pixel_bytes(shape), dataset.image_processor().values()));
  }
  workers_.resize(static_cast<std::size_t>(worker_count(options)));
  for (Worker& worker : workers_) {
    worker.scratch.decoding = &decoding_;
    worker.item.examples.reserve(static_cast<std::size_t>(sequence.examples_per_micro_batch()));
    worker.item.keys.reserve(static_cast<std::size_t>(sequence.examples_per_micro_batch()));
  }
  if (options.workers > 0) start_workers();
}

void Loader::start_workers() {
  int started = 0;
  try {
    for (Worker& worker : workers_) {
      worker.thread = std::thread([this, &worker] { run(worker); });
      ++started;
    }
  } catch (const std::system_error& error) {
    log_warning(fmt::format("the system started only {} of {} ({}): batches are the same, but slower", started,
                            counted(workers_.size(), "thread that loads pages", "threads that load pages"),
                            error.code().message()));
  } catch (...) {
    stop();  // stops the workers that have started
    throw;
  }
}

Loader::~Loader() { stop(); }

void Loader::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  freed_.notify_all();
  for (Worker& worker : workers_) {
    if (worker.thread.joinable()) worker.thread.join();
  }
}

bool Loader::fill(std::uint64_t index, Worker& worker, Slot& slot, const Interrupt* interrupt) {
  slot.error = nullptr;
  const bool images = static_cast<int>(index % static_cast<std::uint64_t>(images_every_)) == images_from_;
  try {
    sequence_.get(index, worker.item);
    Batch& batch = slot.batch;
    batch.begin(worker.item.info);
    for (std::size_t i = 0; i < worker.item.examples.size(); ++i) {
      const std::uint32_t index_of_example = worker.item.examples[i];
      if (stop_.load(std::memory_order_relaxed) || (interrupt != nullptr && interrupt->pending())) return false;
      const Example& example = dataset_.examples()[index_of_example];
      // A pair is two samples, which are distinguished like windows.
      const int each = dataset_.samples_per_example();
      const bool first = i == 0, last = i + 1 == worker.item.examples.size();
      for (int side = 0; side < each; ++side) {
        if ((first && side < worker.item.first_side) || (last && side > worker.item.last_side)) continue;
        // Pixels are loaded first, so that a sample that cannot be loaded is never partly in the batch.
        try {
          dataset_.load(index_of_example, worker.scratch, worker.example,
                        images ? batch.pixel_bytes(batch.samples()) : std::span<std::uint8_t>(), worker.item.info.epoch,
                        side);
        } catch (const DataError& error) {
          throw BadPageError(example.page, error.problem());
        }
        batch.add(worker.example,
                  {.example = index_of_example,
                   .page = example.page,
                   .item = example.item,
                   .items = example.items,
                   .window = each > 1 ? static_cast<std::uint16_t>(side) : example.window,
                   .windows = each > 1 ? static_cast<std::uint16_t>(each) : example.windows},
                  worker.item.keys[i] * each + side, pad_to_);
      }
    }
    batch.finish();
  } catch (...) {
    slot.error = std::current_exception();
  }
  return true;
}

void Loader::run(Worker& worker) {
  std::unique_lock lock(mutex_);
  while (true) {
    freed_.wait(lock,
                [this] { return stop_ || next_fill_ >= sequence_.size() || next_fill_ < released_ + slots_.size(); });
    if (stop_ || next_fill_ >= sequence_.size()) return;
    const std::uint64_t index = next_fill_++;
    Slot& slot = slot_of(index);
    lock.unlock();
    if (!fill(index, worker, slot, nullptr)) return;
    lock.lock();
    slot.ready = true;
    filled_.notify_one();
  }
}

Loader::Slot* Loader::next_slot(const Interrupt* interrupt) {
  Slot& slot = slot_of(next_use_);
  if (!workers_.front().thread.joinable()) {
    if (slot.error == nullptr && !fill(next_use_, workers_.front(), slot, interrupt)) return nullptr;
    return &slot;
  }
  std::unique_lock lock(mutex_);
  if (next_use_ - released_ >= static_cast<std::uint64_t>(held_)) {
    slot_of(released_++).ready = false;
    freed_.notify_one();
  }
  // A signal handler cannot wake a thread that waits here, so the thread checks the interrupt itself.
  constexpr std::chrono::milliseconds kLook{20};
  const auto is_ready = [&slot] { return slot.ready; };
  if (interrupt == nullptr) filled_.wait(lock, is_ready);
  while (!slot.ready) {
    if (interrupt->pending()) return nullptr;
    filled_.wait_for(lock, kLook, is_ready);
  }
  return &slot;
}

const Batch* Loader::next(const Interrupt* interrupt) {
  while (next_use_ < sequence_.size()) {
    Slot* const slot = next_slot(interrupt);
    if (slot == nullptr) return nullptr;
    if (slot->error != nullptr) std::rethrow_exception(slot->error);
    ++next_use_;
    // A micro-batch whose pages are all left out is skipped, unless it represents the whole update, or other ranks have
    // samples in theirs.
    const MicroBatchInfo& info = slot->batch.info();
    if (sequence_.ranks() > 1 && info.samples_in_update > 0) return &slot->batch;
    if (slot->batch.samples() > 0 || (info.samples_in_update == 0 && info.micro_batch == 0)) return &slot->batch;
  }
  return nullptr;
}

const Batch* Loader::peek() {
  if (next_use_ >= sequence_.size() || !workers_.front().thread.joinable()) return nullptr;
  const std::lock_guard lock(mutex_);
  const Slot& slot = slot_of(next_use_);
  return slot.ready && slot.error == nullptr && slot.batch.info().samples_in_update > 0 ? &slot.batch : nullptr;
}

std::uint64_t Loader::host_bytes(const Dataset& dataset, const BatchSequence& sequence, const BatchShape& shape,
                                 LoaderOptions options) {
  return dataset.host_bytes() + sequence.host_bytes() +
         static_cast<std::uint64_t>(slot_count(options)) * Batch::host_bytes(with_pixel_bytes(shape)) +
         dataset.workers_host_bytes(worker_count(options), Dataset::kDecodingBytes);
}

}  // namespace plimsoll
