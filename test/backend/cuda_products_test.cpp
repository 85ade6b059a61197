// Tests the CUDA backend's matrix products apart from their numbers: the algorithm, when it is prepared, and the rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>

#include "backend/compare.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/matmul_buffers.h"
#include "backend/cuda/shared_library.h"
#include "backend/op_case.h"
#include "backend/reference/reference_backend.h"
#include "base/bytes.h"
#include "cublaslt_emulator.h"
#include "cuda_emulator.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

class CudaProducts : public testing::Test {
 protected:
  void SetUp() override {
    cuda_emulator::reverse_threads(false);
    cuda_emulator::refuse_products(false);
    cuda_emulator::set_product_times(1, 1, 1);
    cuda_emulator::set_lt_version(130100);
    cuda_emulator::refuse_rows_below(0);
    cuda_emulator::need_workspace(0);
    cuda_emulator::refuse_batches(false);
  }
};

TEST(CublasLt, SaysWhatWasLookedForAndWhatToInstall) {
  const std::vector<std::string> names = {"libnot_there.so.13", "/nowhere/libnot_there.so"};
  expect_error<EnvironmentError>([&] { cuda::load_cublaslt(names); },
                                 {"libnot_there.so.13", "/nowhere/libnot_there.so", "PLIMSOLL_CUBLASLT",
                                  "LD_LIBRARY_PATH", "pip install nvidia-cublas"});
}

TEST(CublasLt, RefusesAnotherLibrary) {
  const std::vector<std::string> names = {"libnot_there.so.13", "libm.so.6"};
  expect_error<EnvironmentError>([&] { cuda::load_cublaslt(names); }, {"libm.so.6", "no cublasLtGetVersion"});
}

// A library that a driver is too old for is passed over, and named with its reason if there is no other.
TEST(CublasLt, TakesTheNextLibraryWhereOneDoesNotStart) {
  cuda::CublasLt lt = cuda_emulator::cublaslt();
  EXPECT_EQ(cuda::cannot_start(lt), "");
  lt.create = [](cuda::LtHandle*) { return 1; };
  EXPECT_THAT(cuda::cannot_start(lt), testing::HasSubstr("from version 130100"));
  const std::vector<std::string> names = {"libm.so.6", "libdl.so.2"};
  const cuda::LibraryTexts texts{.name = "a library", .purpose = "which a test opens", .remedy = "nothing"};
  std::vector<std::string> seen;
  const auto unfit_first = [&](const cuda::SharedLibrary& library) {
    seen.push_back(library.file());
    return seen.size() == 1 ? std::string("too new") : std::string();
  };
  EXPECT_NO_THROW(cuda::open_library(names, texts, unfit_first));
  EXPECT_EQ(seen, names);
  expect_error<EnvironmentError>(
      [&] { cuda::open_library(names, texts, [](const cuda::SharedLibrary&) { return std::string("too new"); }); },
      {"a library", "libm.so.6: too new; libdl.so.2: too new"});
}

// Compares our declarations with the library itself, as far as that is possible without a GPU: it checks the size of a
// given attribute against its own.
TEST(CublasLt, IsDeclaredAsItIs) {
  std::vector<std::string> names = {"libcublasLt.so.13", "libcublasLt.so.12"};
  if (const char* const file = std::getenv("PLIMSOLL_CUBLASLT"); file != nullptr) names = {file};
  cuda::CublasLt lt;
  try {
    lt = cuda::load_cublaslt(names);
  } catch (const EnvironmentError& error) {
    GTEST_SKIP() << "no cuBLASLt: " << error.what();
  }
  EXPECT_GE(lt.version(), 120000U);
  EXPECT_STREQ(lt.status_name(cuda::kLtSuccess), "CUBLAS_STATUS_SUCCESS");
  EXPECT_STREQ(lt.status_name(cuda::kLtInvalidValue), "CUBLAS_STATUS_INVALID_VALUE");
  EXPECT_STREQ(lt.status_name(cuda::kLtNotSupported), "CUBLAS_STATUS_NOT_SUPPORTED");
  cuda::LtOperation operation = nullptr;
  cuda::LtLayout layout = nullptr;
  cuda::LtPreference preference = nullptr;
  ASSERT_EQ(lt.create_operation(&operation, cuda::kLtComputeF32, cuda::kLtF32), cuda::kLtSuccess);
  ASSERT_EQ(lt.create_layout(&layout, cuda::kLtBF16, 768, 709, 768), cuda::kLtSuccess);
  ASSERT_EQ(lt.create_preference(&preference), cuda::kLtSuccess);
  const auto set = [](auto function, auto of, int attribute, auto value) {
    return function(of, attribute, &value, sizeof value);
  };
  const void* const pointer = nullptr;
  for (const auto& [attribute, value] : {std::pair{cuda::kLtOperationA, cuda::kLtTransposed},
                                         {cuda::kLtOperationB, cuda::kLtPlain},
                                         {cuda::kLtEpilogue, cuda::kLtBiasEpilogue}}) {
    EXPECT_EQ(set(lt.set_operation, operation, attribute, value), cuda::kLtSuccess) << attribute;
    EXPECT_EQ(set(lt.set_operation, operation, attribute, pointer), cuda::kLtInvalidValue) << attribute;
  }
  EXPECT_EQ(set(lt.set_operation, operation, cuda::kLtBiasPointer, pointer), cuda::kLtSuccess);
  EXPECT_EQ(set(lt.set_operation, operation, cuda::kLtBiasPointer, 0), cuda::kLtInvalidValue);
  EXPECT_EQ(set(lt.set_operation, operation, cuda::kLtBiasStride, std::int64_t{768}), cuda::kLtSuccess);
  EXPECT_EQ(set(lt.set_operation, operation, cuda::kLtBiasStride, 768), cuda::kLtInvalidValue);
  EXPECT_EQ(set(lt.set_layout, layout, cuda::kLtBatchCount, 3), cuda::kLtSuccess);
  EXPECT_EQ(set(lt.set_layout, layout, cuda::kLtBatchCount, std::int64_t{3}), cuda::kLtInvalidValue);
  EXPECT_EQ(set(lt.set_layout, layout, cuda::kLtBatchStride, std::int64_t{768}), cuda::kLtSuccess);
  EXPECT_EQ(set(lt.set_layout, layout, cuda::kLtBatchStride, 768), cuda::kLtInvalidValue);
  EXPECT_EQ(set(lt.set_preference, preference, cuda::kLtWorkspaceBytes, std::uint64_t{1}), cuda::kLtSuccess);
  EXPECT_EQ(set(lt.set_preference, preference, cuda::kLtWorkspaceBytes, 1), cuda::kLtInvalidValue);
  for (const int attribute :
       {cuda::kLtReductionMask, cuda::kLtAlignmentA, cuda::kLtAlignmentB, cuda::kLtAlignmentC, cuda::kLtAlignmentD}) {
    EXPECT_EQ(set(lt.set_preference, preference, attribute, std::uint32_t{2}), cuda::kLtSuccess) << attribute;
    EXPECT_EQ(set(lt.set_preference, preference, attribute, std::uint64_t{2}), cuda::kLtInvalidValue) << attribute;
  }
  lt.destroy_preference(preference);
  lt.destroy_layout(layout);
  lt.destroy_operation(operation);
}

// y = x weight^T over 9 of 20 rows, K 24, M 40.
BuiltCase one_product() {
  return OpCase{"linear/one_product",
                [](CaseBuilder& b) {
                  const ValueId x = b.tensor("x", {20, 24}, 9);
                  b.objective(linear(b.graph, "y", x, b.tensor("weight", {40, 24}), kNoValue, b.rows(9)));
                }}
      .build(DType::kF32, false);
}

// Returns the algorithm that multiplies the case's product.
int algorithm_of(const BuiltCase& built, GraphRunner& runner) {
  built.set_data(runner);
  cuda_emulator::lt_calls().last_algorithm = -1;
  runner.run();
  return cuda_emulator::lt_calls().last_algorithm;
}
int algorithm_of(const BuiltCase& built, CudaBackend& backend, RunnerOptions options = {}) {
  GraphRunner runner(built.graph, backend, options);
  return algorithm_of(built, runner);
}

TEST_F(CudaProducts, AreByTheLibrarysFirstProposal) {
  CudaBackend backend;
  EXPECT_EQ(algorithm_of(one_product(), backend), 0);
}

TEST_F(CudaProducts, ArePreparedOnceForEachBound) {
  const BuiltCase built = one_product();
  const auto& calls = cuda_emulator::lt_calls();
  {
    CudaBackend backend;
    GraphRunner all_rows(built.graph, backend), few_rows(built.graph, backend, {.bound_slack = 3});
    const auto run = [&](GraphRunner& runner) {
      const int before = calls.heuristics, products = calls.products, descriptions = calls.descriptions;
      built.set_data(runner);
      runner.run();
      EXPECT_EQ(calls.products, products + 1);
      EXPECT_EQ(calls.descriptions > descriptions, calls.heuristics > before);
      return calls.heuristics - before;
    };
    EXPECT_EQ(run(all_rows), 0);  // prepared with the kernel
    EXPECT_EQ(run(few_rows), 1);
    EXPECT_EQ(run(few_rows), 0);
    EXPECT_EQ(run(all_rows), 0);
  }
  EXPECT_EQ(calls.descriptions, 0);

  CudaBackend backend;
  GraphRunner few_rows(built.graph, backend, {.bound_slack = 3});
  constexpr std::int64_t kBounds[] = {12, 20};
  backend.prepare_bounds(kBounds);
  const int before = calls.heuristics;
  built.set_data(few_rows);
  few_rows.run();
  EXPECT_EQ(calls.heuristics, before);
}

TEST_F(CudaProducts, AreByTheFastestAlgorithmAfterTuning) {
  const BuiltCase built = one_product();
  for (const auto& [times, expected] : {std::pair{std::array{5.0F, 1.0F, 3.0F}, 1},
                                        {std::array{5.0F, 3.0F, 1.0F}, 2},
                                        // The library decides a tie.
                                        {std::array{1.01F, 1.0F, 1.005F}, 0},
                                        {std::array{1.1F, 1.01F, 1.0F}, 1}}) {
    cuda_emulator::set_product_times(times[0], times[1], times[2]);
    CudaBackend backend;
    const GraphRunner prepared(built.graph, backend);
    EXPECT_EQ(algorithm_of(built, backend), 0);
    EXPECT_EQ(backend.choices().algorithms.size(), 0U);
    EXPECT_EQ(backend.tune(*backend.allocate(8 << 20)), 3U);  // at 20, 10 and 5 rows
    for (const std::int64_t slack : {0, 1, 3, 11}) {          // for any bound
      EXPECT_EQ(algorithm_of(built, backend, {.bound_slack = slack}), expected);
    }
    EXPECT_EQ(backend.tune(*backend.allocate(8 << 20)), 0U);  // once is enough
  }
}

TEST_F(CudaProducts, ThatNoKernelNeedsAreNotTuned) {
  const BuiltCase built = one_product();
  CudaBackend backend;
  algorithm_of(built, backend);
  EXPECT_EQ(backend.tune(*backend.allocate(8 << 20)), 0U);
  const GraphRunner prepared(built.graph, backend), twice(built.graph, backend);
  EXPECT_EQ(backend.tune(*backend.allocate(8 << 20)), 3U);
}

TEST_F(CudaProducts, AreTheLibrarysFirstWhereMemoryIsTooSmallToTune) {
  const BuiltCase built = one_product();
  cuda_emulator::set_product_times(5, 1, 3);
  CudaBackend backend;
  const GraphRunner prepared(built.graph, backend);
  EXPECT_EQ(backend.tune(*backend.allocate(1 << 20)), 0U);  // the workspace alone
  EXPECT_EQ(algorithm_of(built, backend), 0);
  EXPECT_EQ(backend.choices().algorithms.size(), 3U);  // which counts as a choice
}

TEST_F(CudaProducts, RepeatWithChoicesThatWereStored) {
  const BuiltCase built = one_product();
  cuda_emulator::set_product_times(5, 1, 3);
  Choices choices;
  {
    CudaBackend backend;
    const GraphRunner prepared(built.graph, backend);
    backend.tune(*backend.allocate(8 << 20));
    choices = backend.choices();
  }
  EXPECT_NE(choices.device.find(", cuBLAS 130100"), std::string::npos) << choices.device;
  ASSERT_EQ(choices.algorithms.size(), 3U);
  for (const char* rows : {"20", "10", "5"}) {
    EXPECT_EQ(choices.algorithms.at(rows + std::string("x40x24 F32>F32 tb")).size(), 128U);
  }

  cuda_emulator::set_product_times(1, 5, 5);
  CudaBackend backend;
  GraphRunner all_rows(built.graph, backend), few_rows(built.graph, backend, {.bound_slack = 0});
  EXPECT_EQ(algorithm_of(built, all_rows), 0);  // products that are prepared already are chosen again
  EXPECT_TRUE(backend.use_choices(choices, "a test"));
  EXPECT_EQ(backend.choices(), choices);
  const int products = cuda_emulator::lt_calls().products;
  EXPECT_EQ(backend.tune(*backend.allocate(8 << 20)), 0U);
  EXPECT_EQ(cuda_emulator::lt_calls().products, products);
  EXPECT_EQ(algorithm_of(built, all_rows), 1);
  EXPECT_EQ(algorithm_of(built, few_rows), 1);
  EXPECT_EQ(backend.choices(), choices);

  // A bound is multiplied like the next larger size that was tuned.
  choices.algorithms.at("10x40x24 F32>F32 tb") = "own kernel";
  EXPECT_TRUE(backend.use_choices(choices, "a test"));
  EXPECT_EQ(algorithm_of(built, few_rows), -1);  // 9 rows
  EXPECT_EQ(algorithm_of(built, backend, {.bound_slack = 2}), 1);
}

TEST_F(CudaProducts, RefuseChoicesThatMakeNoSense) {
  const BuiltCase built = one_product();
  CudaBackend backend;
  const GraphRunner prepared(built.graph, backend);
  backend.tune(*backend.allocate(0));
  Choices choices = backend.choices();
  std::string& choice = choices.algorithms.at("20x40x24 F32>F32 tb");
  const std::string good = choice;
  for (const std::string& bad :
       {std::string(), good.substr(1), "g" + good.substr(1), "+" + good.substr(1), good + "0"}) {
    choice = bad;
    expect_error<DataError>([&] { backend.use_choices(choices, "a/file"); },
                            {"a/file", "20x40x24", "'" + bad + "'", "128 hexadecimal digits", "one at a time"});
  }
  choice = std::string(15, '0') + "9" + good.substr(16);  // an algorithm that does not exist
  backend.use_choices(choices, "a/file");
  expect_error<DataError>([&] { backend.tune(*backend.allocate(0)); }, {"a/file", "20x40x24", "does not run"});
  expect_error<DataError>([&] { algorithm_of(built, backend); }, {"a/file", "20x40x24", "does not run"});
}

TEST_F(CudaProducts, LeaveChoicesForAnotherDeviceOrLibrary) {
  const BuiltCase built = one_product();
  CudaBackend backend;
  const GraphRunner prepared(built.graph, backend);
  cuda_emulator::set_product_times(5, 1, 3);
  backend.tune(*backend.allocate(8 << 20));
  const Choices choices = backend.choices();
  Choices other = choices;
  other.device = "another GPU, cuBLAS 130100";
  for (auto& [name, choice] : other.algorithms) choice = "own kernel";
  EXPECT_FALSE(backend.use_choices(other, "a/file"));
  EXPECT_EQ(backend.choices(), choices);
  cuda_emulator::set_lt_version(120900);
  EXPECT_FALSE(backend.use_choices(choices, "a/file"));
}

// If an algorithm does not run for fewer rows than it was chosen for, the library's first is used.
TEST_F(CudaProducts, GoByTheLibraryWhereAChoiceDoesNotRunForFewerRows) {
  const BuiltCase built = one_product();
  cuda_emulator::set_product_times(5, 1, 3);
  CudaBackend backend;
  const GraphRunner prepared(built.graph, backend);
  backend.tune(*backend.allocate(8 << 20));
  cuda_emulator::refuse_rows_below(10);
  EXPECT_EQ(algorithm_of(built, backend, {.bound_slack = 1}), 1);  // 10 rows
  EXPECT_EQ(algorithm_of(built, backend, {.bound_slack = 0}), 0);  // 9 rows
}

// The same applies if it needs more workspace than there is for so few rows.
TEST_F(CudaProducts, GoByTheLibraryWhereAChoiceNeedsMoreWorkspaceThanFewerRowsHave) {
  const BuiltCase built = OpCase{
      "linear/workspace", [](CaseBuilder& b) {
        const ValueId x = b.tensor("x", {1000, 8}, 505);
        b.objective(linear(b.graph, "y", x, b.tensor("weight", {128, 8}), kNoValue, b.rows(505)));
      }}.build(DType::kF32, false);
  cuda_emulator::set_product_times(5, 1, 3);
  cuda_emulator::need_workspace(4 << 20);
  CudaBackend backend;
  const GraphRunner prepared(built.graph, backend);
  backend.tune(*backend.allocate(32 << 20));
  EXPECT_EQ(algorithm_of(built, backend, {.bound_slack = 20}), 1);  // 525 rows: 16 x 525 x 128 x 4 bytes
  EXPECT_EQ(algorithm_of(built, backend, {.bound_slack = 0}), 0);
}

// Returns buffers of a product whose parts lie at these multiples of kAlignmentBytes.
cuda::MatmulBuffers buffers_at(std::byte* memory, int a, int b, int c) {
  const auto at = [&](int part) { return memory + static_cast<std::size_t>(part) * kAlignmentBytes; };
  return {.a = at(a), .b = at(b), .c = at(c)};
}

TEST(MatmulStrides, AreConstantDistancesThatAreNotNegative) {
  alignas(kAlignmentBytes) std::array<std::byte, 40 * kAlignmentBytes> memory{};
  const auto strides = [&](std::initializer_list<std::array<int, 3>> parts) {
    std::vector<cuda::MatmulBuffers> all;
    for (const auto& [a, b, c] : parts) all.push_back(buffers_at(memory.data(), a, b, c));
    return cuda::strides_of(all);
  };
  const auto found = strides({{0, 5, 20}, {0, 7, 25}, {0, 9, 30}});
  ASSERT_TRUE(found.has_value());
  constexpr auto kUnit = static_cast<std::int64_t>(kAlignmentBytes);
  EXPECT_EQ(found->a, 0);
  EXPECT_EQ(found->b, 2 * kUnit);
  EXPECT_EQ(found->bias, 0);
  EXPECT_EQ(found->c, 5 * kUnit);
  EXPECT_TRUE(strides({{3, 5, 20}, {9, 30, 39}}).has_value());  // any two, in this order
  EXPECT_FALSE(strides({{9, 5, 20}, {3, 30, 39}}).has_value());
  EXPECT_FALSE(strides({{0, 5, 20}, {0, 7, 25}, {0, 8, 30}}).has_value());
  EXPECT_FALSE(strides({{0, 5, 20}, {1, 7, 25}, {1, 9, 30}}).has_value());
  std::vector<cuda::MatmulBuffers> odd = {buffers_at(memory.data(), 0, 5, 20), buffers_at(memory.data(), 0, 7, 25)};
  odd[1].b = static_cast<const std::byte*>(odd[1].b) + 4;
  EXPECT_FALSE(cuda::strides_of(odd).has_value());
}

// Calls that are joined but run one by one keep their order: the first one's scratch may lie over the second's result,
// and that before the first one's.
TEST_F(CudaProducts, ThatAreJoinedButNotBatchedRunInTheirOrder) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {16, 16}});
  for (const char* name : {"first", "second"}) {
    const ValueId weight = graph.add_parameter(std::string(name) + ".weight", {DType::kF32, {16, 16}});
    linear(graph, name, x, weight, kNoValue, kNoValue);
  }
  cuda_emulator::set_product_times(5, 1, 5);  // algorithm 1 fills its whole workspace
  CudaBackend backend;
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const Node& node : graph.nodes()) kernels.push_back(backend.prepare(graph, node));
  const std::size_t scratch_bytes = kernels[0]->scratch_bytes(), matrix_bytes = 16 * 16 * sizeof(float);
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(4 * scratch_bytes + 16 * matrix_bytes);
  cuda_emulator::refuse_batches(true);
  backend.tune(*memory);
  std::byte* const base = memory->bytes().data();
  // x, both weights, then the second's result in the first's scratch, the first's result, the second's scratch.
  const auto view = [&](std::size_t at) { return TensorView({DType::kF32, {16, 16}}, base + at); };
  const std::size_t first_scratch = 4 * matrix_bytes, first_result = first_scratch + scratch_bytes + matrix_bytes;
  const std::size_t second_result = first_scratch + 512, second_scratch = first_result + 4 * matrix_bytes;
  for (const std::size_t at : {std::size_t{0}, matrix_bytes, 2 * matrix_bytes}) {
    for (float& value : view(at).span<float>()) value = 1;
  }
  const std::vector<TensorView> inputs[] = {{view(0), view(2 * matrix_bytes)}, {view(0), view(matrix_bytes)}};
  const std::vector<TensorView> results[] = {{view(first_result)}, {view(second_result)}};
  const std::size_t scratch[] = {first_scratch, second_scratch};
  std::vector<KernelCall> calls;
  for (std::size_t i = 0; i < 2; ++i) {
    calls.push_back({.kernel = kernels[i].get(),
                     .arguments = {.inputs = inputs[i],
                                   .outputs = results[i],
                                   .scratch = memory->bytes().subspan(scratch[i], scratch_bytes)}});
  }
  const Kernel::JoinedCalls joined = kernels[0]->join(calls);
  ASSERT_TRUE(joined);
  joined(16);
  backend.wait();
  for (const auto& result : results) EXPECT_THAT(result[0].span<float>(), testing::Each(16.0F));
}

// Runs every case with an exact and a near bound, as in a real run: rows up to the bound are multiplied, and no row
// that is not real may enter a sum: by cuBLASLt, by our own kernels where it refuses, or by both in turn.
void expect_right_with_bounds(const OpCase& op_case, DType dtype, std::initializer_list<bool> refusals) {
  SCOPED_TRACE(op_case.name);
  const BuiltCase built = op_case.build(dtype, true);
  ReferenceBackend reference;
  GraphRunner expected(built.graph, reference);
  built.set_data(expected);
  expected.run();
  for (const bool refuses : refusals) {
    cuda_emulator::refuse_products(refuses);
    CudaBackend backend;
    for (const std::int64_t slack : {0, 3}) {
      for (const Reuse reuse : {Reuse::kNever, Reuse::kFirst}) {
        GraphRunner found(built.graph, backend, {.reuse = reuse, .bound_slack = slack});
        built.set_data(found);
        found.run();
        expect_near(built.graph, found, expected);
      }
    }
  }
}

TEST_F(CudaProducts, AgreeWithTheReferenceWhateverTheHostKnowsOfRows) {
  for (const OpCase& op_case : linear_cases()) {
    // The suite has the cases with thousands of rows.
    const auto is_of = [&](const char* rows) { return op_case.name.find(rows) != std::string::npos; };
    if (is_of("_of_4200") || is_of("_of_2300") || is_of("_of_2100")) continue;
    for (const DType dtype : {DType::kF32, DType::kBF16}) expect_right_with_bounds(op_case, dtype, {false, true});
  }
}

ValueId gelu_of(CaseBuilder& b, std::string name, ValueId x, ValueId rows) {
  return add_single(b.graph, {.op = Op::kGelu, .name = std::move(name), .inputs = {x}, .row_count = rows});
}

// Products read the outputs of nodes, whose rows that are not real are filled with zeros in place.
TEST_F(CudaProducts, AgreeWithTheReferenceOverWhatNodesMade) {
  const OpCase chain{
      "linear/chain", [](CaseBuilder& b) {
        const ValueId rows = b.rows(7);
        const ValueId x = gelu_of(b, "x", b.constant("input", {20, 16}, 7), rows);
        const ValueId hidden = linear(b.graph, "hidden", x, b.tensor("weight0", {24, 16}), kNoValue, rows);
        const ValueId y =
            linear(b.graph, "y", gelu_of(b, "gelu", hidden, rows), b.tensor("weight1", {8, 24}), kNoValue, rows);
        b.objective(gelu_of(b, "end", y, rows));
      }};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) expect_right_with_bounds(chain, dtype, {false});
}

// dw = dy^T x over 3 rows, where 5 of x are real for other readers.
TEST_F(CudaProducts, LeaveRowsThatOthersRead) {
  const OpCase op_case{"linear_weight_grad/others_read", [](CaseBuilder& b) {
                         const ValueId three = b.rows(3), five = b.rows(5);
                         const ValueId x = gelu_of(b, "x", b.constant("input", {9, 16}, 5), five);
                         const ValueId dy = gelu_of(b, "dy", b.constant("dinput", {9, 8}, 3), three);
                         b.graph.add_node({.op = Op::kLinearWeightGrad,
                                           .name = "dweight",
                                           .inputs = {dy, x},
                                           .row_count = three,
                                           .phase = Phase::kBackward});
                         gelu_of(b, "after", x, five);
                       }};
  for (const DType dtype : {DType::kF32, DType::kBF16}) expect_right_with_bounds(op_case, dtype, {false, true});
}

// Rows are filled in place: the kernel writes them, and needs no copy for it.
TEST_F(CudaProducts, NeedNoCopyOfRowsThatNobodyWasPromised) {
  const auto scratch = [](bool made) {
    const BuiltCase built = OpCase{
        "linear_weight_grad/scratch", [made](CaseBuilder& b) {
          const ValueId rows = b.rows(3);
          ValueId x = b.constant("input", {1024, 512}, 3), dy = b.constant("dinput", {1024, 8}, 3);
          if (made) {
            x = gelu_of(b, "x", x, rows);
            dy = gelu_of(b, "dy", dy, rows);
          }
          b.graph.add_node({.op = Op::kLinearWeightGrad,
                            .name = "dweight",
                            .inputs = {dy, x},
                            .row_count = rows,
                            .phase = Phase::kBackward});
        }}.build(DType::kF32, false);
    CudaBackend backend;
    return backend.prepare(built.graph, built.graph.nodes().back())->scratch_bytes();
  };
  EXPECT_EQ(scratch(false), scratch(true) + 4 * 1024 * (512 + 8));
}

}  // namespace
}  // namespace plimsoll::test
