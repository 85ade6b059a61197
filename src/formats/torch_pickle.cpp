#include "formats/torch_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "base/counted.h"
#include "base/error.h"
#include "formats/pickle.h"

namespace plimsoll {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kRebuildParameterWithState = "torch._utils._rebuild_parameter_with_state";
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

constexpr std::size_t kMaxKeyBytes = 64;  // of a storage: torch.save numbers them

struct StorageClass {
  std::string_view name;
  DType dtype;
};
constexpr StorageClass kStorageClasses[] = {
    {"torch.DoubleStorage", DType::kF64}, {"torch.FloatStorage", DType::kF32}, {"torch.BFloat16Storage", DType::kBF16},
    {"torch.HalfStorage", DType::kF16},   {"torch.LongStorage", DType::kI64},  {"torch.IntStorage", DType::kI32},
    {"torch.ShortStorage", DType::kI16},  {"torch.CharStorage", DType::kI8},   {"torch.ByteStorage", DType::kU8},
    {"torch.BoolStorage", DType::kBool}};

const StorageClass* find_storage_class(std::string_view global) {
  const auto* place = std::find_if(std::begin(kStorageClasses), std::end(kStorageClasses),
                                   [&](const StorageClass& c) { return c.name == global; });
  return place == std::end(kStorageClasses) ? nullptr : place;
}

// Tensors that PyTorch writes and this reader does not support: their rebuilding function or their storage's class.
struct OtherTensor {
  std::string_view global, what;
};
constexpr OtherTensor kOtherTensors[] = {
    {"torch._utils._rebuild_tensor_v3", "numbers of a type that PyTorch has no storage class for"},
    {"torch._utils._rebuild_sparse_tensor", "a sparse tensor"},
    {"torch._utils._rebuild_qtensor", "a quantized tensor"},
    {"torch._utils._rebuild_nested_tensor", "a nested tensor"},
    {"torch._utils._rebuild_meta_tensor_no_storage", "a tensor without values, of the device 'meta'"},
    {"torch._tensor._rebuild_from_type_v2", "a tensor of a subclass, or with attributes of its own"},
    {"torch.ComplexFloatStorage", "complex numbers"},
    {"torch.ComplexDoubleStorage", "complex numbers"},
    {"torch.QInt8Storage", "a quantized tensor"},
    {"torch.QUInt8Storage", "a quantized tensor"},
    {"torch.QInt32Storage", "a quantized tensor"},
    {"torch.QUInt4x2Storage", "a quantized tensor"},
    {"torch.QUInt2x4Storage", "a quantized tensor"},
    {"torch.storage.UntypedStorage", "numbers of a type that PyTorch has no storage class for"}};

const OtherTensor* find_other_tensor(std::string_view global) {
  const auto* place = std::find_if(std::begin(kOtherTensors), std::end(kOtherTensors),
                                   [&](const OtherTensor& other) { return other.global == global; });
  return place == std::end(kOtherTensors) ? nullptr : place;
}

// True for names of values that stand beside tensors, or within the records of unsupported ones.
bool is_plain_value(std::string_view global) {
  static constexpr std::string_view kNames[] = {
      "Size",      "device",    "serialization._get_layout", "per_tensor_affine", "per_channel_affine",
      "Tensor",    "float64",   "float32",   "float16",      "bfloat16",          "int64",
      "int32",     "int16",     "int8",      "uint64",       "uint32",            "uint16",
      "uint8",     "bool",      "complex32", "complex64",    "complex128",        "float8_e4m3fn",
      "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"};
  constexpr std::string_view kModule = "torch.";
  return global.starts_with(kModule) &&
         std::find(std::begin(kNames), std::end(kNames), global.substr(kModule.size())) != std::end(kNames);
}

// Only names are compared; nothing that a file names is ever called.
bool is_allowed(std::string_view global) {
  return global == kRebuildTensor || global == kRebuildParameter || global == kRebuildParameterWithState ||
         global == kOrderedDict || find_storage_class(global) != nullptr || find_other_tensor(global) != nullptr ||
         is_plain_value(global);
}

// Turns the pickle's tree into entries; every number in it is checked against the archive.
class StateDict {
 public:
  StateDict(const Pickle& pickle, const ZipReader& zip, std::string prefix)
      : pickle_(pickle), zip_(zip), prefix_(std::move(prefix)) {}

  std::vector<TensorEntry> entries;
  std::vector<TorchPickleReader::Layout> layouts;

  void collect() {
    const PickleValue* dict = &pickle_[pickle_.root()];
    if (!is_dict(*dict)) {
      refuse("the file holds no dictionary of tensors", "", "what torch.save(model.state_dict(), path) writes");
    }
    for (std::size_t i = 0; i + 1 < dict->pairs.size(); i += 2) {
      const PickleValue& key = pickle_[dict->pairs[i]];
      const PickleValue& value = pickle_[dict->pairs[i + 1]];
      if (key.kind == Kind::kText && key.text == "state_dict" && is_dict(value)) {
        dict = &value;
        break;
      }
    }
    std::unordered_set<PickleRef> names;
    for (std::size_t i = 0; i + 1 < dict->pairs.size(); i += 2) {
      const PickleValue& key = pickle_[dict->pairs[i]];
      const PickleValue* value = &pickle_[dict->pairs[i + 1]];
      if (is_call(*value, kRebuildParameter) || is_call(*value, kRebuildParameterWithState)) {
        value = &argument(*value, 0);
      }
      if (key.kind != Kind::kText || value->kind != Kind::kCall) continue;
      name_ = key.text;
      refuse_other_tensor(pickle_[value->items[0]].text, *value);
      if (!is_call(*value, kRebuildTensor)) continue;
      // A million tensors could share one text as their name, which would be copied each time, so a duplicate ends
      // reading here.
      if (!names.insert(dict->pairs[i]).second) refuse("a tensor's name comes twice");
      add(*value);
    }
    name_.clear();
    if (entries.empty()) refuse("the file's dictionary holds no tensors");
  }

 private:
  [[noreturn]] void refuse(std::string what, std::string found = {}, std::string allowed = {}) const {
    const std::string file = zip_.file().path().string();
    throw DataError({.what = std::move(what),
                     .where = name_.empty() ? file : fmt::format("{}, tensor '{}'", file, name_),
                     .found = std::move(found),
                     .allowed = std::move(allowed),
                     .remedy = "the file is damaged, or holds more than a state dict: save the "
                               "model again, best as model.safetensors"});
  }

  // `call` is the call that rebuilds the tensor.
  void refuse_other_tensor(std::string_view global, const PickleValue& call) const {
    const OtherTensor* other = find_other_tensor(global);
    if (other == nullptr) return;
    std::string found(other->what);
    for (const PickleRef ref : pickle_[call.items[1]].items) {  // the number type of _rebuild_tensor_v3
      const PickleValue& argument = pickle_[ref];
      if (argument.kind == Kind::kGlobal && is_plain_value(argument.text)) found += fmt::format(" ({})", argument.text);
    }
    throw DataError({.what = "a tensor of a kind that is not read",
                     .where = fmt::format("{}, tensor '{}'", zip_.file().path().string(), name_),
                     .found = std::move(found),
                     .allowed = "dense tensors of F64, F32, F16, BF16, whole numbers up to 64 bits, or bool",
                     .remedy = "no LayoutLMv3 model has such a weight: save the model's own state_dict(), or convert "
                               "the tensor, for example with .to(torch.float32)"});
  }

  bool is_call(const PickleValue& value, std::string_view callee) const {
    return value.kind == Kind::kCall && pickle_[value.items[0]].text == callee;
  }
  bool is_dict(const PickleValue& value) const {
    return value.kind == Kind::kDict || (is_call(value, kOrderedDict) && pickle_[value.items[1]].items.empty());
  }
  const PickleValue& argument(const PickleValue& call, std::size_t i) const {
    const PickleValue& arguments = pickle_[call.items[1]];
    if (i >= arguments.items.size()) refuse("a tensor's record is too short");
    return pickle_[arguments.items[i]];
  }
  const PickleValue& expect(const PickleValue& value, Kind kind) const {
    if (value.kind != kind) refuse("a tensor's record is not as torch.save writes it");
    return value;
  }
  std::uint64_t size(const PickleValue& value) const {
    const std::int64_t number = expect(value, Kind::kInteger).integer;
    if (number < 0) refuse("a size, stride or offset is negative", fmt::format("{}", number));
    return static_cast<std::uint64_t>(number);
  }

  struct Storage {
    DType dtype;
    std::uint64_t offset_bytes, elements;
  };

  // The record is ('storage', torch.FloatStorage, key, location, elements). The location (cpu, cuda:0) says
  // where the tensor lived when it was saved, and is ignored here. `call` is the call that rebuilds its
  // tensor.
  Storage storage(const PickleValue& call) const {
    const PickleValue& value = argument(call, 0);
    const PickleValue& id = expect(pickle_[expect(value, Kind::kPersistent).items[0]], Kind::kTuple);
    if (id.items.size() < 5 || pickle_[id.items[0]].text != "storage") {
      refuse("a storage's record is not as torch.save writes it");
    }
    const std::string& class_name = expect(pickle_[id.items[1]], Kind::kGlobal).text;
    const StorageClass* storage_class = find_storage_class(class_name);
    if (storage_class == nullptr) {
      refuse_other_tensor(class_name, call);
      refuse("a storage of no known type");
    }
    const std::string& key = expect(pickle_[id.items[2]], Kind::kText).text;
    const std::uint64_t elements = size(pickle_[id.items[4]]);
    const ZipEntry* entry = key.size() > kMaxKeyBytes ? nullptr : zip_.find(prefix_ + "data/" + key);
    if (entry == nullptr) {
      refuse("a tensor's storage is missing", fmt::format("key '{}'", key.substr(0, kMaxKeyBytes)));
    }
    if (entry->deflated) {
      throw DataError({.what = "a tensor is compressed inside its archive, which torch.save never does",
                       .where = fmt::format("{}, tensor '{}'", zip_.file().path().string(), name_),
                       .allowed = "entries that are stored",
                       .remedy = "unpack and pack it again with 'zip -0', or save it again with torch.save"});
    }
    if (elements > entry->bytes / dtype_bytes(storage_class->dtype)) {
      refuse("a storage is shorter than its record says", counted(entry->bytes, "byte"),
             fmt::format("{} of {}", counted(elements, "element"), dtype_name(storage_class->dtype)));
    }
    return {storage_class->dtype, entry->offset_bytes, elements};
  }

  // The call is _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[, metadata]).
  void add(const PickleValue& call) {
    const Storage store = storage(call);
    const std::uint64_t offset = size(argument(call, 1));
    const PickleValue& sizes = expect(argument(call, 2), Kind::kTuple);
    const PickleValue& strides = expect(argument(call, 3), Kind::kTuple);
    if (pickle_[call.items[1]].items.size() > 6) {
      const PickleValue& metadata = argument(call, 6);
      if (!is_dict(metadata) || !metadata.pairs.empty()) {
        refuse("a tensor is a conjugated or negated view, which is not read");
      }
    }
    if (sizes.items.size() != strides.items.size()) refuse("a tensor's sizes and strides differ");
    std::vector<std::uint64_t> dims;
    for (const PickleRef ref : sizes.items) dims.push_back(size(pickle_[ref]));
    TensorEntry entry{.name = name_,
                      .type = checked_tensor_type(store.dtype, dims,
                                                  fmt::format("{}, tensor '{}'", zip_.file().path().string(), name_))};

    TorchPickleReader::Layout layout;
    const bool empty = entry.type.shape.elements() == 0;
    std::uint64_t last = offset;  // position of the last element in the storage
    std::uint64_t packed = 1;     // the stride that row-major order would have
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      const std::uint64_t stride = size(pickle_[strides.items[axis]]);
      layout.strides[axis] = static_cast<std::int64_t>(stride);
      if (empty) continue;
      if (dims[axis] > 1 && stride > (store.elements - std::min(last, store.elements)) / (dims[axis] - 1)) {
        refuse(
            "a tensor reaches beyond its storage",
            fmt::format("offset {}, shape {}, stride {} on axis {}", offset, to_string(entry.type.shape), stride, axis),
            counted(store.elements, "element"));
      }
      last += stride * (dims[axis] - 1);
      if (dims[axis] > 1 && stride != packed) layout.contiguous = false;
      packed *= dims[axis];
    }
    if (empty ? offset > store.elements : last >= store.elements) {
      refuse("a tensor reaches beyond its storage",
             fmt::format("offset {}, shape {}", offset, to_string(entry.type.shape)),
             counted(store.elements, "element"));
    }
    entry.offset_bytes = store.offset_bytes + offset * dtype_bytes(store.dtype);
    entries.push_back(std::move(entry));
    layouts.push_back(layout);
  }

  const Pickle& pickle_;
  const ZipReader& zip_;
  std::string prefix_;  // "archive/"
  std::string name_;    // name of the tensor being read
};

constexpr std::size_t kStartBytes = 32;  // the first bytes of a file, which identify it

// True for a pickle of protocol 2 or later.
bool is_binary_pickle(std::string_view start) { return start.size() > 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5; }

// Before 1.6 a file was a sequence of pickles, the first one being the number 0x1950a86a20f9469cfc6c, in whatever
// protocol torch.save was told to use; with _use_new_zipfile_serialization=False it still is.
bool is_legacy(std::string_view start) {
  constexpr std::string_view kText = "L119547037146038801333356L\n.", kBinary = "\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  if (start.starts_with(kText)) return true;
  if (!is_binary_pickle(start)) return false;
  constexpr std::size_t kFrameBytes = 9;  // from protocol 4 on: the pickle's length
  start.remove_prefix(2);
  if (start.starts_with('\x95')) start.remove_prefix(std::min(kFrameBytes, start.size()));
  return start.starts_with(kBinary);
}

const std::filesystem::path& refuse_other_formats(const std::filesystem::path& path) {
  const InputFile file(path);
  refuse_placeholder(file);
  std::string start(std::min<std::uint64_t>(file.size_bytes(), kStartBytes), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start.data(), start.size())));
  if (is_legacy(start)) {
    throw DataError({.what = "this file is in PyTorch's format from before version 1.6",
                     .where = path.string(),
                     .allowed = "the zip format that torch.save writes since 1.6, or safetensors",
                     .remedy = "save it again: python -c \"import torch; torch.save(torch.load('" + path.string() +
                               "', map_location='cpu', weights_only=True), '" + path.string() +
                               ".new')\", then rename the new file"});
  }
  if (!start.starts_with("PK")) {
    throw DataError({.what = "this is not a file that torch.save wrote",
                     .where = path.string(),
                     .found = is_binary_pickle(start) ? "a Python pickle, as pickle.dump writes it"
                                                      : "a file that does not begin as a zip archive",
                     .allowed = "the zip format that torch.save writes, or safetensors",
                     .remedy = "the file is torn, or of another kind: get it again"});
  }
  return path;
}

// Returns "archive/" if the archive has exactly one "archive/data.pkl".
std::string find_prefix(const ZipReader& zip) {
  constexpr std::string_view kPickle = "data.pkl";
  std::vector<std::string> prefixes;
  for (const ZipEntry& entry : zip.entries()) {
    if (!entry.name.ends_with(kPickle)) continue;
    std::string prefix = entry.name.substr(0, entry.name.size() - kPickle.size());
    if (prefix.empty() || prefix.find('/') == prefix.size() - 1) prefixes.push_back(prefix);
  }
  if (prefixes.size() != 1) {
    throw DataError({.what = "this archive is none that torch.save wrote",
                     .where = zip.file().path().string(),
                     .found = counted(prefixes.size(), "entry") + " called data.pkl",
                     .allowed = "one",
                     .remedy = "pass the file that torch.save(model.state_dict(), path) wrote"});
  }
  return prefixes.front();
}

}  // namespace

TorchPickleReader::TorchPickleReader(const std::filesystem::path& path)
    : TensorSource(path), zip_(refuse_other_formats(path)) {
  const std::string prefix = find_prefix(zip_);
  const ZipEntry* order = zip_.find(prefix + "byteorder");
  if (order != nullptr && zip_.read_all(*order, 16) != "little") {
    throw DataError({.what = "the tensors are not little endian",
                     .where = path.string(),
                     .allowed = "byteorder 'little'",
                     .remedy = "save the model again on an ordinary machine"});
  }
  const std::string text = zip_.read_all(*zip_.find(prefix + "data.pkl"), kMaxPickleBytes);
  const Pickle pickle = parse_pickle(std::as_bytes(std::span(text.data(), text.size())), path.string(), is_allowed);
  StateDict state(pickle, zip_, prefix);
  state.collect();
  layouts_ = std::move(state.layouts);
  set_entries(std::move(state.entries));
}

void TorchPickleReader::verify() const {
  for (const ZipEntry& entry : zip_.entries()) zip_.verify(entry);
}

void TorchPickleReader::read_range(std::size_t index, std::uint64_t first_element,
                                   std::span<std::byte> destination) const {
  const TensorEntry& entry = entries()[index];
  const Layout& layout = layouts_[index];
  const std::size_t width = dtype_bytes(entry.type.dtype);
  if (layout.contiguous) {
    return zip_.file().read_at(entry.offset_bytes + first_element * width, destination);
  }

  // A whole tensor is read in the order of its storage, so that the file is read once from front to back; a part of one
  // is read in row-major order. Both use a small window on the file.
  const Shape& shape = entry.type.shape;
  const std::size_t rank = shape.rank();
  std::array<std::int64_t, Shape::kMaxRank> packed{};  // row-major strides of the destination
  std::int64_t step = 1;
  for (std::size_t axis = rank; axis-- > 0; step *= shape[axis]) packed[axis] = step;
  std::array<std::size_t, Shape::kMaxRank> order{};  // axes, outermost first
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t count = destination.size() / width;
  if (destination.size() == entry.type.bytes()) {
    for (std::size_t i = 1; i < rank; ++i) {  // insertion sort, largest stride first: at most five axes
      for (std::size_t k = i; k > 0 && layout.strides[order[k]] > layout.strides[order[k - 1]]; --k) {
        std::swap(order[k], order[k - 1]);
      }
    }
  }
  std::array<std::int64_t, Shape::kMaxRank> at{};
  std::int64_t source = 0, target = 0;  // in elements
  auto rest = static_cast<std::int64_t>(first_element);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    at[axis] = rest / packed[axis];
    rest %= packed[axis];
    source += at[axis] * layout.strides[axis];
  }

  // The last element of the storage that this tensor uses bounds the window.
  std::int64_t extent = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    extent += (shape[axis] - 1) * layout.strides[axis];
  }
  std::array<std::byte, 16384> window;
  const auto window_elements = static_cast<std::int64_t>(window.size() / width);
  std::int64_t window_begin = 0, window_end = 0;
  for (std::size_t done = 0; done < count; ++done) {
    if (source < window_begin || source >= window_end) {
      window_begin = source;
      window_end = std::min(source + window_elements, extent);
      zip_.file().read_at(entry.offset_bytes + static_cast<std::uint64_t>(source) * width,
                          std::span(window).first(static_cast<std::size_t>(window_end - source) * width));
    }
    std::memcpy(destination.data() + static_cast<std::size_t>(target) * width,
                window.data() + static_cast<std::size_t>(source - window_begin) * width, width);
    for (std::size_t place = rank; place-- > 0;) {
      const std::size_t axis = order[place];
      source += layout.strides[axis];
      target += packed[axis];
      if (++at[axis] < shape[axis]) break;
      source -= at[axis] * layout.strides[axis];
      target -= at[axis] * packed[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace plimsoll
