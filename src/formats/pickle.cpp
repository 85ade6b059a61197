#include "formats/pickle.h"

#include <fmt/format.h>

#include <limits>
#include <unordered_map>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "formats/little_endian.h"

namespace plimsoll {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMaxMarks = 1000;  // nested lists, tuples and dictionaries

// The instructions, by CPython's names (Lib/pickle.py).
// clang-format off
enum Op : std::uint8_t {
  kMark = '(', kStop = '.', kPop = '0', kPopMark = '1', kDup = '2', kBinFloat = 'G', kBinInt = 'J',
  kBinInt1 = 'K', kBinInt2 = 'M', kNone = 'N', kBinPersId = 'Q', kReduce = 'R', kBinString = 'T',
  kShortBinString = 'U', kBinUnicode = 'X', kAppend = 'a', kBuild = 'b', kGlobal = 'c', kDict = 'd',
  kEmptyDict = '}', kAppends = 'e', kBinGet = 'h', kLongBinGet = 'j', kList = 'l', kEmptyList = ']',
  kBinPut = 'q', kLongBinPut = 'r', kSetItem = 's', kTuple = 't', kEmptyTuple = ')',
  kSetItems = 'u', kBinBytes = 'B', kShortBinBytes = 'C', kProto = 0x80, kNewObj = 0x81,
  kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87, kNewTrue = 0x88, kNewFalse = 0x89, kLong1 = 0x8a,
  kShortBinUnicode = 0x8c, kBinUnicode8 = 0x8d, kBinBytes8 = 0x8e, kEmptySet = 0x8f,
  kAddItems = 0x90, kStackGlobal = 0x93, kMemoize = 0x94, kFrame = 0x95
};
// clang-format on

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& where,
          const std::function<bool(std::string_view)>& is_allowed, const PickleLimits& limits)
      : bytes_(bytes), where_(where), is_allowed_(is_allowed), limits_(limits) {}

  Pickle run() {
    while (true) {
      op_offset_ = position_;
      const auto op = take<std::uint8_t>();
      if (op == kStop) break;
      step(op);
    }
    const PickleRef root = pop();
    return {std::move(values_), root};
  }

 private:
  [[noreturn]] void refuse(std::string what, std::string found = {}, std::string allowed = {}) const {
    throw DataError({.what = std::move(what),
                     .where = fmt::format("{}, pickle byte {}", where_, op_offset_),
                     .found = std::move(found),
                     .allowed = std::move(allowed),
                     .remedy = limits_.remedy});
  }

  // --- bytes ---
  std::span<const std::byte> take_bytes(std::uint64_t count) {
    if (count > bytes_.size() - position_) refuse("a pickle ends too early");
    const auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }
  template <typename T>
  T take() {
    return load_little_endian<T>(take_bytes(sizeof(T)));
  }
  std::string take_text(std::uint64_t count) {
    const auto taken = take_bytes(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string take_line() {
    const std::size_t begin = position_;
    while (take<char>() != '\n') {
    }
    return {reinterpret_cast<const char*>(bytes_.data()) + begin, position_ - begin - 1};
  }

  // --- stack ---
  PickleRef make(PickleValue value) {
    if (values_.size() == limits_.values) {
      refuse(fmt::format("a pickle holds more values than any {}", limits_.kind), {},
             fmt::format("at most {}", limits_.values));
    }
    values_.push_back(std::move(value));
    return static_cast<PickleRef>(values_.size() - 1);
  }
  void push(PickleValue value) { push_ref(make(std::move(value))); }
  // Duplicating instructions multiply references, so references have a limit of their own.
  void push_ref(PickleRef ref) {
    if (stack_.size() == 4 * limits_.values) refuse("a pickle's stack is too deep");
    stack_.push_back(ref);
  }
  PickleRef pop() {
    if (stack_.size() <= floor()) refuse("a pickle takes more from its stack than it put there");
    const PickleRef ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  PickleRef top() const {
    if (stack_.size() <= floor()) refuse("a pickle takes more from its stack than it put there");
    return stack_.back();
  }
  // Values below the last mark may not be touched before the mark is removed.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<PickleRef> pop_to_mark() {
    if (marks_.empty()) refuse("a pickle lacks a mark");
    std::vector<PickleRef> taken(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return taken;
  }
  void push_tuple(std::size_t count) {
    std::vector<PickleRef> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push({.kind = Kind::kTuple, .items = std::move(items)});
  }

  // --- values ---
  void push_integer(std::int64_t value) { push({.kind = Kind::kInteger, .integer = value}); }
  void push_text(std::uint64_t count) { push({.kind = Kind::kText, .text = take_text(count)}); }

  void push_long() {  // two's complement of any length; a size or offset has at most 8 bytes
    const auto count = take<std::uint8_t>();
    const auto taken = take_bytes(count);
    const bool negative = count > 0 && (static_cast<std::uint8_t>(taken.back()) & 0x80U) != 0;
    if (count > 8) {
      if (!limits_.huge_integers) refuse("a whole number is too large", counted(count, "byte"), "8 bytes");
      using Limits = std::numeric_limits<std::int64_t>;
      return push_integer(negative ? Limits::min() : Limits::max());
    }
    std::uint64_t bits = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = count; i-- > 0;) bits = bits << 8 | static_cast<std::uint8_t>(taken[i]);
    push_integer(static_cast<std::int64_t>(bits));
  }

  void push_global(const std::string& module, const std::string& name) {
    std::string global = module + "." + name;
    if (!is_allowed_(global)) {
      throw DataError({.what = "this file would run code when Python loads it, and is not read",
                       .where = fmt::format("{}, pickle byte {}", where_, op_offset_),
                       .found = fmt::format("'{}'", global.substr(0, 200)),
                       .allowed = "what builds tensors and dictionaries, and nothing else",
                       .remedy = "if you trust its origin, load it with PyTorch and save the model's "
                                 "state_dict() as model.safetensors; otherwise delete it"});
    }
    push({.kind = Kind::kGlobal, .text = std::move(global)});
  }

  void call() {
    const PickleRef arguments = pop();
    const PickleRef callee = pop();
    if (values_[callee].kind != Kind::kGlobal || values_[arguments].kind != Kind::kTuple) {
      refuse("a pickle calls something that is no function");
    }
    push({.kind = Kind::kCall, .items = {callee, arguments}});
  }

  void extend_list(const std::vector<PickleRef>& added) {
    PickleValue& list = values_[top()];
    if (list.kind != Kind::kList) refuse("a pickle appends to something that is no list");
    count_refs(added.size());
    list.items.insert(list.items.end(), added.begin(), added.end());
  }
  void extend_dict(const std::vector<PickleRef>& added) {
    PickleValue& dict = values_[top()];
    if (dict.kind != Kind::kDict && dict.kind != Kind::kCall) {
      refuse("a pickle sets items of something that is no dictionary");
    }
    if (added.size() % 2 != 0) refuse("a pickle sets a key without a value");
    count_refs(added.size());
    dict.pairs.insert(dict.pairs.end(), added.begin(), added.end());
  }

  // Recalling a value repeatedly takes two bytes of the file each time, but more of memory.
  void count_refs(std::size_t added) {
    refs_ += added;
    if (refs_ > 8 * limits_.values) refuse(fmt::format("a pickle's lists are longer than any {}'s", limits_.kind));
  }
  void memoize(std::uint32_t key, PickleRef ref) {
    if (memo_.size() == limits_.values) refuse(fmt::format("a pickle stores more than any {}", limits_.kind));
    memo_[key] = ref;
  }
  void push_memo(std::uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) {
      refuse("a pickle recalls what it never stored", fmt::format("{}", key));
    }
    push_ref(found->second);
  }

  void step(std::uint8_t op) {
    switch (op) {
      // clang-format off
      case kNone: return push({});
      case kNewTrue: return push({.kind = Kind::kBool, .integer = 1});
      case kNewFalse: return push({.kind = Kind::kBool});
      case kBinInt: return push_integer(take<std::int32_t>());
      case kBinInt1: return push_integer(take<std::uint8_t>());
      case kBinInt2: return push_integer(take<std::uint16_t>());
      case kLong1: return push_long();
      case kShortBinString: case kShortBinBytes: case kShortBinUnicode:
        return push_text(take<std::uint8_t>());
      case kBinString: case kBinBytes: case kBinUnicode: return push_text(take<std::uint32_t>());
      case kBinUnicode8: case kBinBytes8: return push_text(take<std::uint64_t>());

      case kEmptyTuple: return push_tuple(0);
      case kTuple1: return push_tuple(1);
      case kTuple2: return push_tuple(2);
      case kTuple3: return push_tuple(3);
      case kTuple: return push({.kind = Kind::kTuple, .items = pop_to_mark()});
      case kEmptyList: case kEmptySet: return push({.kind = Kind::kList});
      case kList: return push({.kind = Kind::kList, .items = pop_to_mark()});
      case kAppend: return extend_list({pop()});
      case kAppends: case kAddItems: return extend_list(pop_to_mark());
      case kEmptyDict: return push({.kind = Kind::kDict});
      case kSetItems: return extend_dict(pop_to_mark());

      case kReduce: case kNewObj: return call();
      case kDup: return push_ref(top());
      case kBinPut: return memoize(take<std::uint8_t>(), top());
      case kLongBinPut: return memoize(take<std::uint32_t>(), top());
      case kMemoize: return memoize(static_cast<std::uint32_t>(memo_.size()), top());
      case kBinGet: return push_memo(take<std::uint8_t>());
      case kLongBinGet: return push_memo(take<std::uint32_t>());
      // clang-format on
      default:
        return step_in_several_moves(op);
    }
  }

  void step_in_several_moves(std::uint8_t op) {
    switch (op) {
      case kProto: {
        const auto protocol = take<std::uint8_t>();
        if (protocol <= 5) return;
        refuse("a pickle protocol unknown here", fmt::format("{}", protocol), "0 to 5");
      }
      case kFrame:
        take<std::uint64_t>();
        return;
      case kMark:
        if (marks_.size() == kMaxMarks) refuse("a pickle's values are nested too deep");
        marks_.push_back(stack_.size());
        return;
      case kPop:  // on an empty stretch it removes the mark itself
        if (!marks_.empty() && stack_.size() == marks_.back()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return;
      case kPopMark:
        pop_to_mark();
        return;
      case kBinFloat:
        take_bytes(8);
        return push({.kind = Kind::kReal});
      case kDict: {
        const std::vector<PickleRef> pairs = pop_to_mark();
        push({.kind = Kind::kDict});
        return extend_dict(pairs);
      }
      case kSetItem: {
        const PickleRef value = pop();
        const PickleRef key = pop();
        return extend_dict({key, value});
      }
      case kGlobal: {
        const std::string module = take_line();
        return push_global(module, take_line());
      }
      case kStackGlobal: {
        const PickleRef name = pop();
        const PickleRef module = pop();
        if (values_[name].kind != Kind::kText || values_[module].kind != Kind::kText) {
          refuse("a pickle names a global by something that is no text");
        }
        return push_global(std::string(values_[module].text), std::string(values_[name].text));
      }
      case kBuild: {  // sets an object's attributes: state dicts keep version numbers there; not needed
        pop();
        const Kind kind = values_[top()].kind;
        if (kind == Kind::kCall || kind == Kind::kDict) return;
        refuse("a pickle sets attributes of a plain value");
      }
      case kBinPersId: {
        const PickleRef id = pop();
        return push({.kind = Kind::kPersistent, .items = {id}});
      }
      default:
        refuse("a pickle instruction that tensors never need", fmt::format("{:#04x}", op));
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
  const std::function<bool(std::string_view)>& is_allowed_;
  const PickleLimits& limits_;
  std::size_t position_ = 0, op_offset_ = 0, refs_ = 0;
  std::vector<PickleValue> values_;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleRef> memo_;
};

}  // namespace

Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& where,
                    const std::function<bool(std::string_view)>& is_allowed, const PickleLimits& limits) {
  if (bytes.size() > limits.bytes) {
    throw DataError({.what = fmt::format("a pickle is larger than any {}", limits.kind),
                     .where = where,
                     .found = format_bytes(bytes.size()),
                     .allowed = format_bytes(limits.bytes)});
  }
  return Machine(bytes, where, is_allowed, limits).run();
}

}  // namespace plimsoll
