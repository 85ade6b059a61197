// Reads pickle as data: a Python pickle becomes a passive tree; nothing that it names is ever run.
//
// A pickle is a program for a small stack machine whose REDUCE instruction calls whatever function
// the file names. Here a call is only recorded (kCall), and a function that the caller did not allow
// ends reading: "this file would run code". (Instructions: CPython, Lib/pickletools.py, protocols 2
// to 5.)
//
// Values are in one flat list and refer to one another by index, so shared values cost nothing, cycles are harmless,
// and nothing here recurses. PickleLimits bounds the memory.
//
//   const Pickle pickle = parse_pickle(bytes, "model.bin", [](std::string_view name) {
//     return name == "collections.OrderedDict"; });
//   const PickleValue& root = pickle[pickle.root()];
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

inline constexpr std::size_t kMaxPickleBytes = std::size_t{64} << 20;
// A tensor of a state dict takes about 20 values, so this is enough for 50,000 tensors.
inline constexpr std::size_t kMaxPickleValues = 1'000'000;

using PickleRef = std::uint32_t;  // index of a value

struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,        // integer: 0 or 1
    kInteger,     // integer
    kReal,        // no value is kept, because nothing here needs it
    kText,        // text: str or bytes
    kTuple,       // items
    kList,        // items, also for sets
    kDict,        // pairs: key, value, key, value, …
    kGlobal,      // text: "module.name"
    kCall,        // items: callee (kGlobal), arguments (kTuple); pairs: what was set on the result
    kPersistent,  // items: the one value that names something stored outside
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  std::string text{};
  std::vector<PickleRef> items{}, pairs{};
};

class Pickle {
 public:
  Pickle(std::vector<PickleValue> values, PickleRef root) : values_(std::move(values)), root_(root) {}
  PickleRef root() const { return root_; }
  std::size_t size() const { return values_.size(); }
  const PickleValue& operator[](PickleRef ref) const { return values_[ref]; }

 private:
  std::vector<PickleValue> values_;
  PickleRef root_;
};

// Limits on the contents of a file; the defaults suit a state dict.
struct PickleLimits {
  std::size_t bytes = kMaxPickleBytes;
  std::size_t values = kMaxPickleValues;
  bool huge_integers =
      false;  // more than 8 bytes: allowed, and read as the largest or smallest `integer`
  std::string kind = "state dict";
  std::string remedy =
      "the file is damaged, or holds more than tensors: save the model's "
      "state_dict() alone, best as model.safetensors";
};

// Throws DataError naming `where` and the byte if the pickle is cut, names a global that `is_allowed` refuses, uses an
// instruction that data never need, or exceeds the limits.
Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& where,
                    const std::function<bool(std::string_view global)>& is_allowed, const PickleLimits& limits = {});

}  // namespace plimsoll
