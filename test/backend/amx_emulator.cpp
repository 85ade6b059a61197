#include "backend/amx_emulator.h"

#include "backend/cpu/tile_product_bf16.h"
#include "backend/cpu/tile_shapes.h"

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/half.h"

namespace plimsoll::test {
namespace {

constexpr int kRegisters = 8, kMostRows = 16, kMostRowBytes = 64;

struct Tiles {
  bool configured = false;
  TileShapes shapes;
  std::uint8_t data[kRegisters][kMostRows][kMostRowBytes];

  bool exists(int tile) const { return configured && shapes.rows[tile] > 0 && shapes.row_bytes[tile] > 0; }
};
thread_local Tiles tiles;

int objects = 0;
bool emulates = false;
struct sigaction before;

// Processors take denormal operands and results of tile products for zeros.
float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? 0.0F : x; }

// A VEX-encoded instruction of three prefix bytes (Intel 64 and IA-32 Architectures Software Developer's Manual, 2.3).
struct Instruction {
  const std::uint8_t* bytes;
  const greg_t* registers;

  bool is_vex_0f38() const { return bytes[0] == 0xC4 && (bytes[1] & 0x1F) == 2 && (bytes[2] & 0x84) == 0; }
  int prefix() const { return bytes[2] & 3; }  // none, 66, F3, F2
  int opcode() const { return bytes[3]; }
  int third_register() const { return ~bytes[2] >> 3 & 15; }
  bool has_memory() const { return bytes[4] >> 6 != 3; }
  int first_register() const { return bytes[4] >> 3 & 7; }
  int second_register() const { return bytes[4] & 7; }
  bool has_sib() const { return has_memory() && (bytes[4] & 7) == 4; }

  std::size_t size() const {
    const bool no_base = has_sib() && bytes[4] >> 6 == 0 && (bytes[5] & 7) == 5;
    const int displacement = no_base ? 4 : !has_memory() || bytes[4] >> 6 == 0 ? 0 : bytes[4] >> 6 == 1 ? 1 : 4;
    return 5U + (has_sib() ? 1U : 0U) + static_cast<std::size_t>(displacement);
  }
  // The address without its index, or 0 where it is relative to the instruction, which no code of ours uses.
  std::uint8_t* base() const {
    const int low = has_sib() ? bytes[5] & 7 : bytes[4] & 7, mode = bytes[4] >> 6;
    if (mode == 0 && low == 5) return nullptr;
    std::int64_t address = general(low | ((bytes[1] & 0x20) == 0 ? 8 : 0));
    const std::uint8_t* const displacement = bytes + 5 + (has_sib() ? 1 : 0);
    if (mode == 1) address += static_cast<std::int8_t>(displacement[0]);
    if (mode == 2) {
      std::int32_t far = 0;
      std::memcpy(&far, displacement, sizeof far);
      address += far;
    }
    return reinterpret_cast<std::uint8_t*>(address);
  }
  std::int64_t row_stride() const {
    const int index = (bytes[5] >> 3 & 7) | ((bytes[1] & 0x40) == 0 ? 8 : 0);
    return index == 4 ? 0 : general(index) << (bytes[5] >> 6);
  }
  std::int64_t general(int number) const {
    static constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                     REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return registers[kOrder[number]];
  }
};

bool configure(const Instruction& code) {
  if (!code.has_memory()) {
    tiles.configured = false;
    return code.bytes[4] == 0xC0;
  }
  if (code.base() == nullptr) return false;
  std::memcpy(&tiles.shapes, code.base(), sizeof tiles.shapes);
  std::memset(tiles.data, 0, sizeof tiles.data);
  if (tiles.shapes.palette != 1) return false;
  for (int i = 0; i < kRegisters; ++i) {
    const bool has_rows = tiles.shapes.rows[i] > 0, has_bytes = tiles.shapes.row_bytes[i] > 0;
    if (tiles.shapes.rows[i] > kMostRows || tiles.shapes.row_bytes[i] > kMostRowBytes || has_rows != has_bytes) {
      return false;
    }
  }
  return tiles.configured = true;
}

bool move(const Instruction& code, bool loads) {
  const int tile = code.first_register();
  if (!tiles.exists(tile) || !code.has_sib() || code.base() == nullptr) return false;
  if (loads) std::memset(tiles.data[tile], 0, sizeof tiles.data[tile]);
  for (int row = 0; row < tiles.shapes.rows[tile]; ++row) {
    std::uint8_t* const memory = code.base() + row * code.row_stride();
    if (loads) {
      std::memcpy(tiles.data[tile][row], memory, tiles.shapes.row_bytes[tile]);
    } else {
      std::memcpy(memory, tiles.data[tile][row], tiles.shapes.row_bytes[tile]);
    }
  }
  return true;
}

// Sums the even elements of a row apart from the odd ones, as the manual's pseudocode of TDPBF16PS does.
bool multiply(int c, int a, int b) {
  const TileShapes& shapes = tiles.shapes;
  if (c == a || c == b || a == b || b >= kRegisters || !tiles.exists(c) || !tiles.exists(a) || !tiles.exists(b) ||
      shapes.rows[c] != shapes.rows[a] || shapes.row_bytes[a] / 4 != shapes.rows[b] ||
      shapes.row_bytes[b] != shapes.row_bytes[c]) {
    return false;
  }
  const auto half = [](const std::uint8_t* row, int at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, row + 2 * at, sizeof bits);
    return flushed(bfloat16_to_float(bits));
  };
  for (int i = 0; i < shapes.rows[c]; ++i) {
    float sums[2][kMostRowBytes / 4] = {};
    for (int k = 0; k < shapes.rows[b]; ++k) {
      for (int part = 0; part < 2; ++part) {
        const float factor = half(tiles.data[a][i], 2 * k + part);
        for (int j = 0; j < shapes.row_bytes[c] / 4; ++j) {
          sums[part][j] = flushed(sums[part][j] + factor * half(tiles.data[b][k], 2 * j + part));
        }
      }
    }
    for (int j = 0; j < shapes.row_bytes[c] / 4; ++j) {
      float old = 0;
      std::memcpy(&old, tiles.data[c][i] + 4 * j, sizeof old);
      const float sum = flushed(flushed(old) + flushed(sums[0][j] + sums[1][j]));
      std::memcpy(tiles.data[c][i] + 4 * j, &sum, sizeof sum);
    }
  }
  return true;
}

// Returns false where a processor with AMX would refuse the instruction.
bool carry_out(const Instruction& code) {
  enum { kNone, k66, kF3, kF2 };
  if (!code.is_vex_0f38()) return false;
  if (code.opcode() == 0x49 && code.prefix() == kNone) return configure(code);  // ldtilecfg, tilerelease
  if (code.opcode() == 0x49 && code.prefix() == kF2 && !code.has_memory()) {    // tilezero
    if (!tiles.exists(code.first_register())) return false;
    std::memset(tiles.data[code.first_register()], 0, sizeof tiles.data[0]);
    return true;
  }
  if (code.opcode() == 0x4B && code.prefix() == kF2) return move(code, true);   // tileloadd
  if (code.opcode() == 0x4B && code.prefix() == k66) return move(code, true);   // tileloaddt1
  if (code.opcode() == 0x4B && code.prefix() == kF3) return move(code, false);  // tilestored
  if (code.opcode() == 0x5C && code.prefix() == kF3 && !code.has_memory()) {    // tdpbf16ps
    return multiply(code.first_register(), code.second_register(), code.third_register());
  }
  return false;
}

void handle(int signal, siginfo_t*, void* context) {
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const Instruction code{reinterpret_cast<const std::uint8_t*>(registers[REG_RIP]), registers};
  if (carry_out(code)) {
    registers[REG_RIP] += static_cast<greg_t>(code.size());
  } else {
    sigaction(signal, &before, nullptr);  // the instruction runs again, and ends the process
  }
}

}  // namespace

bool EmulatedAmx::is_possible() { return __builtin_cpu_supports("avx512bf16") != 0; }

EmulatedAmx::EmulatedAmx() {
  if (objects++ > 0 || multiplies_tiles() || !is_possible()) return;
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before);
  emulates = true;
  set_multiplies_tiles_for_test(true);
}

EmulatedAmx::~EmulatedAmx() {
  if (--objects > 0 || !emulates) return;
  set_multiplies_tiles_for_test(false);
  emulates = false;
  sigaction(SIGILL, &before, nullptr);
}

}  // namespace plimsoll::test

#else

namespace plimsoll::test {

bool EmulatedAmx::is_possible() { return false; }
EmulatedAmx::EmulatedAmx() {}
EmulatedAmx::~EmulatedAmx() {}

}  // namespace plimsoll::test

#endif
