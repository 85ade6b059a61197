// AMX for processors that lack it: a handler of SIGILL carries out the nine instructions of tiles that our code uses,
// so that the same machine code is tested on every machine with AVX512_BF16. It refuses what a processor would refuse:
// tiles that are not configured, and products of tiles whose shapes do not fit.
//
//   if (!EmulatedAmx::is_possible()) GTEST_SKIP() << "this processor has no AVX512_BF16";
//   const EmulatedAmx emulated;
//   ASSERT_TRUE(multiplies_tiles());
#pragma once

namespace plimsoll::test {

class EmulatedAmx {
 public:
  static bool is_possible();  // code for AMX also uses AVX512_BF16

  // Nothing changes where the processor has AMX, where it is not possible, or while another object emulates it.
  EmulatedAmx();
  ~EmulatedAmx();
  EmulatedAmx(const EmulatedAmx&) = delete;
  EmulatedAmx& operator=(const EmulatedAmx&) = delete;
};

}  // namespace plimsoll::test
