// What a log says about the run besides its failure: the model's family, the GPU, the batch, the options that save
// memory, and how much memory was in use. Advice (doctor/advice.h) is chosen by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::doctor {

// A family of models, and what transformers supports for it.
struct Family {
  std::string_view pattern{};  // as in a log's module paths, class names and model names
  std::string_view name{};
  bool checkpointing = true;   // gradient checkpointing
  bool sdpa = true;            // an attention that stores no scores
  std::string_view adapted{};  // the layers that adapters usually replace
};

// A GPU, by its name in logs.
struct Card {
  std::string_view pattern{};  // in small letters
  std::string_view name{};
  int capability = 0;  // 75 is 7.5
  double gib = 0;
};

// Memory that lines of progress print, over a run.
struct MemoryTrend {
  double first = 0, last = 0;  // in the log's unit
  int points = 0;
  std::uint64_t first_line = 0, last_line = 0;
  bool grows = false;  // grows from line to line over the run, and still grows towards its end
};

struct LogFacts {
  const Family* family = nullptr;
  bool large = false;  // the family's large model
  const Card* card = nullptr;
  std::optional<int> micro_batch{}, accumulation{};
  bool fp16 = false, bf16 = false, checkpointing = false, adapters = false, small_optimizer = false;
  std::optional<double> learning_rate{};  // the first one printed
  std::optional<int> driver_cuda{};       // as PyTorch prints it: 10010 is CUDA 10.1
  std::optional<int> torch_cuda{};        // PyTorch's build, in the same form: "+cu113" is 11030
  std::optional<int> toolkit_cuda{};      // the one that nvcc compiles for, if a build complains about it
  std::optional<int> port{};              // the one that a server could not open
  std::optional<double> listed_gib{};     // the most that nvidia-smi's table shows as used on one GPU
  // The inner sizes of a refused matrix product: the input's, and the layer's.
  std::optional<int> fed{}, wanted{};
  std::optional<int> outer{};     // that layer's other size
  bool rocm = false;              // the log names AMD's platform: HIP, ROCm, an AMD GPU
  bool lists_no_process = false;  // that table ends with "No running processes found"
  MemoryTrend trend{};

  // True if the GPU is newer than every kernel in that build of PyTorch.
  bool gpu_newer_than_build() const;
  // True if memory is used on a GPU on which nvidia-smi lists no process.
  bool has_hidden_process() const { return lists_no_process && listed_gib.value_or(0) > 1; }
};

// Says whether the GPU has arithmetic in bfloat16 (compute capability 8.0). Returns nothing if neither the log's names
// nor the device's size identify the GPU.
std::optional<bool> has_bf16(const LogFacts& facts, std::optional<std::uint64_t> device_bytes);

// Returns "CUDA 10.1" for 10010.
std::string cuda_name(int version);

class LogFactsReader {
 public:
  // Lines with one of these are worth reading; `read` gets the index.
  static const std::vector<std::string_view>& patterns();
  void read(std::size_t pattern, std::uint64_t line, std::string_view small);
  LogFacts facts() const;

 private:
  void read_memory(std::string_view key, std::uint64_t line, std::string_view small);
  void read_table(std::string_view small);
  static void read_cuda(std::string_view text, std::optional<int>& version);
  void read_port(std::string_view small);

  struct Point {
    std::uint64_t line = 0;
    double value = 0;
  };
  LogFacts facts_;
  int family_rank_ = 0, card_rank_ = 0;
  bool names_cuda_ = false;    // in an error
  std::string_view key_{};     // the words before the figures that are followed
  std::vector<Point> points_;  // every `stride_`-th of them
  std::uint64_t seen_ = 0, stride_ = 1;
};

}  // namespace plimsoll::doctor
