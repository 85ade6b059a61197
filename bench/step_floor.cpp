// Measures how close a training step comes to its own matrix products: runs steps and products in turn, in one process.
//
//   plimsoll_step_floor --model DIR --batch FILE [--bf16] [--steps 7] [--threads 2] [--json]
//
// The floor is every product in the step's graph (forward, input gradients, weight gradients), each as one oneDNN
// matmul over all rows, back to back, in the step's layouts and types: rows and weights unpacked, without bias or
// addend. Attention's products are separate, one matmul per sample over all heads: two forward, four backward. They
// read and write the scores, which the step never holds as a whole. The buffers rotate through a pool larger than the
// caches. "Floor over step" is the median over the pairs.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/dnnl_matmul.h"
#include "graph/attention_form.h"
#include "train/step_bench.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;
using Memory = dnnl::memory;

// A stack of matrices with their strides between matrices, rows and columns.
struct Matrices {
  Memory::dims sizes, strides;
  Memory::data_type type;

  Memory::desc description() const { return {sizes, type, strides}; }
};

// Memory from which tensors are cut one after the other, then from the start again, so that none is still cached.
class Pool {
 public:
  explicit Pool(std::size_t bytes) : bytes_(bytes), data_(bytes) {}
  void* next(std::size_t bytes) {
    if (used_ + bytes > bytes_) used_ = 0;
    void* const at = data_.data() + used_;
    used_ += (bytes + 63) / 64 * 64;
    return at;
  }

 private:
  std::size_t bytes_, used_ = 0;
  std::vector<std::byte> data_;
};

class Products {
 public:
  explicit Products(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      switch (node.op) {
        case Op::kLinear:
        case Op::kLinearAdd:
          add_linear(graph, node);
          break;
        case Op::kLinearInputGrad:
          add_input_grad(graph, node);
          break;
        case Op::kLinearWeightGrad:
          add_weight_grad(graph, node);
          break;
        case Op::kAttention:
          add_attention(graph, node, 0, false);
          break;
        case Op::kAttentionGrad:
          add_attention(graph, node, 1, true);
          break;
        default:
          break;
      }
    }
  }

  // Returns the seconds of all linear products, and of all of attention's.
  std::pair<double, double> run() {
    const double linear = run(linear_);
    return {linear, run(attention_)};
  }
  double linear_flop() const { return linear_flop_; }
  double attention_flop() const { return attention_flop_; }

 private:
  struct Product {
    dnnl::matmul primitive;
    Memory::desc a, b, c, scratchpad;
  };

  // The type in which the CPU multiplies them: BF16 if it can, else F32.
  static Memory::data_type type_of(DType dtype) {
    return dtype == DType::kBF16 && multiplies_bf16() ? Memory::data_type::bf16 : Memory::data_type::f32;
  }
  static Matrices plain(std::int64_t rows, std::int64_t columns, DType dtype) {
    return {{rows, columns}, {columns, 1}, type_of(dtype)};
  }
  static Matrices transposed(Matrices m) {
    std::swap(m.sizes[m.sizes.size() - 1], m.sizes[m.sizes.size() - 2]);
    std::swap(m.strides[m.strides.size() - 1], m.strides[m.strides.size() - 2]);
    return m;
  }

  void add(std::vector<Product>& list, const Matrices& a, const Matrices& b, const Matrices& c) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc made(engine_, a.description(), b.description(), c.description(), attributes);
#else
    const dnnl::matmul::primitive_desc made(dnnl::matmul::desc(a.description(), b.description(), c.description()),
                                            attributes, engine_);
#endif
    list.push_back({dnnl::matmul(made), made.src_desc(), made.weights_desc(), made.dst_desc(), made.scratchpad_desc()});
    scratch_.resize(std::max(scratch_.size(), made.scratchpad_desc().get_size() + 64));
  }

  void add_linear(const Graph& graph, const Node& node) {
    const TensorType &x = graph.type(node.inputs[0]), &weight = graph.type(node.inputs[1]);
    const TensorType& y = graph.type(node.outputs[0]);
    const DType operands = x.dtype == weight.dtype ? x.dtype : DType::kF32;
    add(linear_, plain(x.shape[0], x.shape[1], operands), transposed(plain(y.shape[1], x.shape[1], operands)),
        plain(x.shape[0], y.shape[1], y.dtype == operands ? operands : DType::kF32));
    linear_flop_ += 2.0 * static_cast<double>(x.shape[0] * x.shape[1] * y.shape[1]);
  }
  void add_input_grad(const Graph& graph, const Node& node) {
    const TensorType &dy = graph.type(node.inputs[0]), &weight = graph.type(node.inputs[1]);
    const TensorType& dx = graph.type(node.outputs[0]);
    const DType operands = dy.dtype == weight.dtype ? dy.dtype : DType::kF32;
    add(linear_, plain(dy.shape[0], dy.shape[1], operands), plain(dy.shape[1], dx.shape[1], operands),
        plain(dy.shape[0], dx.shape[1], dx.dtype == operands ? operands : DType::kF32));
    linear_flop_ += 2.0 * static_cast<double>(dy.shape[0] * dy.shape[1] * dx.shape[1]);
  }
  void add_weight_grad(const Graph& graph, const Node& node) {
    const TensorType &dy = graph.type(node.inputs[0]), &x = graph.type(node.inputs[1]);
    add(linear_, transposed(plain(dy.shape[0], dy.shape[1], dy.dtype)), plain(x.shape[0], x.shape[1], dy.dtype),
        plain(dy.shape[1], x.shape[1], DType::kF32));
    linear_flop_ += 2.0 * static_cast<double>(dy.shape[0] * dy.shape[1] * x.shape[1]);
  }

  // q, k, v are the inputs from `first` on.
  void add_attention(const Graph& graph, const Node& node, std::size_t first, bool gradient) {
    const TensorType& q = graph.type(node.inputs[first]);
    const std::int64_t heads = std::get<AttentionAttributes>(node.attributes).heads, width = q.shape[1];
    const std::int64_t samples = graph.type(node.inputs[attention_form(node).sample_offsets()]).shape[0] - 1;
    const std::int64_t length = q.shape[0] / samples, head_size = width / heads;
    const Memory::data_type type = type_of(q.dtype);
    const Matrices rows{{heads, length, head_size}, {head_size, width, 1}, type};
    const Matrices scores{{heads, length, length}, {length * length, length, 1}, type};
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      add(attention_, rows, transposed(rows), scores);  // q k^T; backward: dp = doutput v^T
      add(attention_, scores, rows, rows);              // p v; backward: dq = ds k
      if (gradient) {
        add(attention_, transposed(scores), rows, rows);  // dv = p^T doutput
        add(attention_, transposed(scores), rows, rows);  // dk = ds^T q
      }
    }
    attention_flop_ += (gradient ? 8.0 : 4.0) * static_cast<double>(samples * length * length * width);
  }

  double run(std::vector<Product>& products) {
    const auto memory = [&](const Memory::desc& description, void* at) { return Memory(description, engine_, at); };
    void* const scratch = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(scratch_.data()) + 63) / 64 * 64);
    const auto begin = Clock::now();
    for (Product& product : products) {
      product.primitive.execute(stream_, {{DNNL_ARG_SRC, memory(product.a, pool_.next(product.a.get_size()))},
                                          {DNNL_ARG_WEIGHTS, memory(product.b, pool_.next(product.b.get_size()))},
                                          {DNNL_ARG_DST, memory(product.c, pool_.next(product.c.get_size()))},
                                          {DNNL_ARG_SCRATCHPAD, memory(product.scratchpad, scratch)}});
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Product> linear_, attention_;
  double linear_flop_ = 0, attention_flop_ = 0;
  Pool pool_{std::size_t{512} << 20};
  std::vector<std::byte> scratch_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int run(int argc, char** argv) {
  CLI::App app("Times a training step beside its own matrix products");
  std::string model, batch;
  bool bf16 = false, json = false;
  int steps = 7, threads = 2;
  app.add_option("--model", model, "Hugging Face model directory, or a preset")->required();
  app.add_option("--batch", batch, "safetensors, as grad takes it")->required();
  app.add_flag("--bf16", bf16, "activations in bfloat16");
  app.add_option("--steps", steps, "pairs of a step and its products, after one that warms up")->capture_default_str();
  app.add_option("--threads", threads, "threads")->capture_default_str();
  app.add_flag("--json", json, "print one JSON object");
  CLI11_PARSE(app, argc, argv);

  CpuBackend backend(threads);
  omp_set_num_threads(threads);
  std::unique_ptr<Products> products;
  std::vector<double> linear, attention;
  const StepBench bench = bench_step(open_weights_only(model), batch,
                                     {.steps = steps + 1,
                                      .precision = bf16 ? DType::kBF16 : DType::kF32,
                                      .after_step =
                                          [&](const Graph& graph) {
                                            if (products == nullptr) products = std::make_unique<Products>(graph);
                                            const auto [of_linear, of_attention] = products->run();
                                            linear.push_back(of_linear);
                                            attention.push_back(of_attention);
                                          }},
                                     backend);
  const auto ratio = [&](bool with_attention) {
    std::vector<double> ratios;
    for (std::size_t i = 1; i < linear.size(); ++i) {
      ratios.push_back((linear[i] + (with_attention ? attention[i] : 0)) / bench.step_seconds[i]);
    }
    return median(ratios);
  };
  const auto warm = [](std::vector<double> seconds) {
    seconds.erase(seconds.begin());
    return median(seconds);
  };
  const double step = warm(bench.step_seconds), of_linear = warm(linear), of_attention = warm(attention);
  if (json) {
    fmt::print("{}\n", nlohmann::json{{"step_seconds", step},
                                      {"linear_seconds", of_linear},
                                      {"attention_seconds", of_attention},
                                      {"floor_over_step", ratio(true)},
                                      {"linear_over_step", ratio(false)}}
                           .dump());
    return 0;
  }
  fmt::print("step                   {:8.1f} ms\n", 1000 * step);
  fmt::print("linear products        {:8.1f} ms   {:.0f} GFLOP/s\n", 1000 * of_linear,
             1e-9 * products->linear_flop() / of_linear);
  fmt::print("attention's products   {:8.1f} ms   {:.0f} GFLOP/s\n", 1000 * of_attention,
             1e-9 * products->attention_flop() / of_attention);
  fmt::print("floor over step        {:8.3f}      linear products alone {:.3f}\n", ratio(true), ratio(false));
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  try {
    return plimsoll::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
