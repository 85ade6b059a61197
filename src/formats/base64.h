// Base64 with padding (RFC 4648), for bytes in JSON and in data: addresses.
//
//   const std::optional<std::string> bytes = decode_base64("UExJTVNPTEw=");   // nothing: it is not base64
//   const std::string text = encode_base64(*bytes);
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

std::optional<std::string> decode_base64(std::string_view text);
std::string encode_base64(std::string_view bytes);

}  // namespace plimsoll
