// After warm-up, an update leaves no allocation behind: on the training thread, 0 bytes are live afterwards that were
// not live before, and at most 64 KiB at any time. Our own code allocates nothing at all; allocations by oneDNN (inside
// dnnl_primitive_execute and dnnl_sgemm) and libgomp (a team of one thread for each parallel region) are counted
// separately.
//
// malloc and its family are replaced for the whole program, so it is a separate one; operator new calls them, too.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "data/chat.h"
#include "data/page_source.h"
#include "tasks/causal_lm/text.h"
#include "train/trainer_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLIMSOLL_OWN_MALLOC 0  // the sanitizers have installed their own
#else
#define PLIMSOLL_OWN_MALLOC 1
#endif

namespace {

struct Tally {
  bool counting = false;
  long allocations = 0;     // by our code
  long in_library = 0;      // by oneDNN and libgomp
  long live = 0, peak = 0;  // bytes since counting began
};
thread_local Tally tally;
thread_local bool inside_library = false;

[[maybe_unused]] void* taken(void* block) {
  if (tally.counting && block != nullptr) {
    ++(inside_library ? tally.in_library : tally.allocations);
    tally.live += static_cast<long>(::malloc_usable_size(block));
    tally.peak = std::max(tally.peak, tally.live);
  }
  return block;
}
[[maybe_unused]] void given_back(void* block) {
  if (tally.counting && block != nullptr) tally.live -= static_cast<long>(::malloc_usable_size(block));
}

}  // namespace

#if PLIMSOLL_OWN_MALLOC
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) { return taken(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return taken(__libc_calloc(count, size)); }
void* realloc(void* block, std::size_t size) {
  given_back(block);
  return taken(__libc_realloc(block, size));
}
void* memalign(std::size_t alignment, std::size_t size) { return taken(__libc_memalign(alignment, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return taken(__libc_memalign(alignment, size)); }
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = taken(__libc_memalign(alignment, size));
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) {
  given_back(block);
  __libc_free(block);
}

// Replace oneDNN's functions, to distinguish its allocations from ours.
int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  using Execute = int (*)(const void*, void*, int, const void*);
  static const auto execute = reinterpret_cast<Execute>(::dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  inside_library = true;
  const int status = execute(primitive, stream, count, arguments);
  inside_library = false;
  return status;
}
int dnnl_sgemm(char transposed_a, char transposed_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
               const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
               std::int64_t ldc) {
  static const auto multiply = reinterpret_cast<decltype(&dnnl_sgemm)>(::dlsym(RTLD_NEXT, "dnnl_sgemm"));
  inside_library = true;
  const int status = multiply(transposed_a, transposed_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  inside_library = false;
  return status;
}

// Replaces libgomp's function; the region's body is our code again.
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  struct Region {
    void (*body)(void*);
    void* data;
  } region{body, data};
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  static const auto parallel = reinterpret_cast<Parallel>(::dlsym(RTLD_NEXT, "GOMP_parallel"));
  const auto run_body = [](void* pointer) {
    const Region& inner = *static_cast<Region*>(pointer);
    const bool was_inside = std::exchange(inside_library, false);
    inner.body(inner.data);
    inside_library = was_inside;
  };
  const bool was_inside = std::exchange(inside_library, true);
  parallel(run_body, &region, threads, flags);
  inside_library = was_inside;
}
}
#endif

namespace plimsoll {
namespace {

using namespace test;

constexpr long kInFlight = 64 * 1024;

class Allocation : public testing::Test {
 protected:
  void SetUp() override {
    if (PLIMSOLL_OWN_MALLOC == 0) GTEST_SKIP() << "a sanitizer has its own malloc";
  }
  void TearDown() override { tally = {}; }
};

// Checks that allocations are really counted.
TEST_F(Allocation, IsCounted) {
  tally = {.counting = true};
  // Called by name, because compilers may omit a `new` whose memory is not used.
  void* first = ::operator new(100000);
  void* second = std::calloc(10, 10);
  const Tally during = tally;
  ::operator delete(first);
  std::free(second);
  const Tally after = tally;
  tally = {};
  EXPECT_EQ(during.allocations, 2);
  EXPECT_GE(during.live, 100000);
  EXPECT_EQ(after.live, 0);
}

// Counts from the end of one update to the end of the next, including batch, logs and report.
class CountingObserver : public TrainObserver {
 public:
  void on_step(const StepReport& report) override {
    const Tally seen = tally;
    tally = {};
    if (report.step > kWarm) {
      live = std::max(live, seen.live);
      peak = std::max(peak, seen.peak);
      allocations = std::max(allocations, seen.allocations);
      in_library = std::max(in_library, seen.in_library);
      ++updates;
    }
    tally.counting = report.step >= kWarm && report.step < report.total_steps;
  }
  static constexpr std::int64_t kWarm = 3;
  long live = 0, peak = 0, allocations = 0, in_library = 0;
  int updates = 0;
};

TEST_F(Allocation, NothingStaysAfterAnUpdate) {
  for (const std::int64_t micro : {4, 2}) {
    const ScratchFolder folder;
    write_pages(folder.path());
    const ModelBundle bundle = small_model();
    TrainOptions options;
    options.output_dir = folder.make("run");
    options.train_batch_size = 4;
    options.max_steps = 10;
    options.logging_steps = 1;
    options.save_steps = 0;
    options.log_order = true;
    CpuBackend backend(1);
    const DataRequest request{.data = {folder.path() / "pages.jsonl"}, .box_format = BoxFormat::k1000};
    const auto data = open_dataset(bundle, request, false);
    MemoryRequest memory;
    memory.budget_bytes = std::size_t{1} << 30;
    memory.micro_batch_size = micro;
    memory.loader_workers = 1;
    const Session session(fit(fit_request(bundle, options, data.get(), nullptr, memory), backend), backend);
    CountingObserver observer;
    Trainer trainer(session, bundle, {.train = data.get()}, options, loader_options(memory), 1, observer);
    Interrupt interrupt;
    trainer.run(std::nullopt, interrupt);
    EXPECT_EQ(observer.updates, 7);
    EXPECT_LE(observer.live, 0) << "bytes stay after an update, micro-batches of " << micro;
    EXPECT_LE(observer.peak, kInFlight) << "micro-batches of " << micro;
    EXPECT_EQ(observer.allocations, 0) << "by our own code, micro-batches of " << micro;
    std::printf(
        "micro-batches of %ld: %ld allocations by our code, %ld by libraries, at most %ld bytes in flight (bar: %ld)\n",
        static_cast<long>(micro), observer.allocations, observer.in_library, observer.peak, kInFlight);
  }
}

// "[" and so many of these, with commas between, and "]".
std::string many(const std::string& value, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + value;
  return text + "]";
}
std::string page_of(const std::string& value, const std::string& box, const std::string& label, int count) {
  return R"({"id":"x","image":"a.png","words":)" + many(value, count) + R"(,"boxes":)" + many(box, count) +
         R"(,"labels":)" + many(label, count) + "}";
}

// PageSource::parsing_bytes is never exceeded, whatever the line consists of.
TEST_F(Allocation, ReadingAPageTakesNoMoreThanIsPlanned) {
  std::string prose;
  for (int i = 0; i < 30000; ++i) prose += i % 7 == 0 ? "receipt, " : "quite \\\"long\\\" ";
  const std::string said = R"({"role":"user","content":"a"},{"role":"assistant","content":"b"})";
  const auto answer = [](const std::string& text) {
    return R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":")" + text + "\"}]}";
  };
  const auto chat = std::make_shared<const ChatForm>(
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}{% if add_generation_prompt %}"
      "<assistant>{% endif %}",
      "here", nlohmann::ordered_json::object());
  const std::string one = page_of("\"a\"", "[0,0,1,1]", "\"O\"", 2001);
  struct Line {
    const char* what;
    std::string text;
    const TargetReader* target;
    bool is_pair = false;
  };
  const std::vector<Line> lines = {
      {"words", page_of("\"a\"", "[0,0,1,1]", "\"O\"", 20001), nullptr},
      {"long words", page_of("\"" + std::string(300, 'w') + "\"", "[0,0,1,1]", "\"O\"", 700), nullptr},
      {"a key that nobody reads", R"({"text":"a","x":)" + many("[]", 30001) + "}", &text_reader()},
      {"whole numbers", R"({"text":"a","x":)" + many("0", 65537) + "}", &text_reader()},
      {"objects", R"({"text":"a","x":)" + many(R"({"a":1,"b":[{}]})", 20001) + "}", &text_reader()},
      {"a text", R"({"text":")" + prose + "\"}", &text_reader()},
      {"plain text", R"({"text":")" + std::string(1 << 20, 'a') + "\"}", &text_reader()},
      {"a prompt", R"({"prompt":"a","completion":")" + prose + "\"}", &text_reader()},
      {"a long answer", answer(prose), &text_reader()},
      {"a plain answer", answer(std::string(1 << 20, 'a')), &text_reader()},
      {"a conversation", R"({"messages":)" + many(said, 300) + "}", &text_reader()},
      {"a pair", R"({"a":)" + one + R"(,"b":)" + one + "}", nullptr, true}};
  for (const Line& line : lines) {
    const ScratchFolder folder;
    ReadOptions reading;
    reading.parts = {.boxes = line.target == nullptr, .image = line.target == nullptr};
    reading.target = line.target;
    if (line.target != nullptr) reading.chat = chat;
    reading.pairs = line.is_pair;
    const auto source = open_pages(folder.write("pages.jsonl", line.text + "\n"), reading);
    PageFaults faults;
    tally = {.counting = true};
    const Page page = source->read(0, &faults);
    const Tally seen = tally;
    tally = {};
    EXPECT_GE(page.words.size(), 1U);
    EXPECT_LE(seen.peak, static_cast<long>(source->parsing_bytes())) << line.what;
    std::printf("%s: %ld bytes a byte, %ld planned\n", line.what, seen.peak / static_cast<long>(line.text.size()),
                static_cast<long>(source->parsing_bytes() / line.text.size()));
  }
}

}  // namespace
}  // namespace plimsoll
