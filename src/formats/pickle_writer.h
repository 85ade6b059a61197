// Writes plain data as a Python pickle (protocol 2), piece by piece: nothing but numbers, texts, lists, tuples and
// dictionaries, so that reading it runs no code. Texts that occur again are written once.
//
//   PickleWriter pickle([&](std::string_view bytes) { file.write(bytes); });
//   pickle.begin_dict();
//   pickle.text("steps");
//   pickle.begin_list();
//   pickle.integer(3);
//   pickle.end_list();
//   pickle.end_dict();
//   pickle.finish();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace plimsoll {

class PickleWriter {
 public:
  explicit PickleWriter(std::function<void(std::string_view)> write);

  void boolean(bool value);
  void integer(std::int64_t value);
  void real(double value);
  // The bytes must be UTF-8: Python would refuse others.
  void text(std::string_view value);
  void begin_list();
  void end_list();
  void begin_tuple();
  void end_tuple();
  // Keys and values alternate.
  void begin_dict();
  void end_dict();
  // Returns a number by which the value that ended last can be written again, in a few bytes.
  std::uint32_t remember();
  void recall(std::uint32_t value);
  // Writes the last byte; there must be one value.
  void finish();

 private:
  void put(char op) { write_({&op, 1}); }
  template <typename T>
  void put(char op, T number);

  std::function<void(std::string_view)> write_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;
  std::uint32_t remembered_ = 0;
};

}  // namespace plimsoll
