#include "convert/xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/counted.h"
#include "base/error.h"
#include "base/in_quotes.h"
#include "data/page.h"

namespace plimsoll {
namespace {

constexpr const char* kRemedy = "get the file again from the program that wrote it, or leave it out";

std::string_view without_prefix(std::string_view name) {
  const std::size_t colon = name.rfind(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

}  // namespace

std::string_view XmlNode::name() const { return without_prefix(node_.name()); }

std::optional<std::string_view> XmlNode::attribute(const char* name) const {
  for (const pugi::xml_attribute& each : node_.attributes()) {
    if (without_prefix(each.name()) == name) return each.value();
  }
  return std::nullopt;
}

std::optional<double> XmlNode::number(const char* name) const {
  const std::optional<std::string_view> text = attribute(name);
  if (!text) return std::nullopt;
  double number = 0;
  const char* const end = text->data() + text->size();
  const auto read = std::from_chars(text->data(), end, number);
  if (text->empty() || read.ec != std::errc() || read.ptr != end || !std::isfinite(number)) {
    refuse("an attribute is not a number", fmt::format("{}={}", name, in_quotes(*text)), "a number");
  }
  return number;
}

std::vector<XmlNode> XmlNode::children() const {
  std::vector<XmlNode> found;
  for (const pugi::xml_node& each : node_.children()) {
    if (each.type() == pugi::node_element) found.push_back(XmlNode(each, *file_));
  }
  return found;
}

std::vector<XmlNode> XmlNode::children(std::string_view name) const {
  std::vector<XmlNode> found;
  for (const XmlNode& each : children()) {
    if (each.name() == name) found.push_back(each);
  }
  return found;
}

std::optional<XmlNode> XmlNode::child(std::string_view name) const {
  for (const pugi::xml_node& each : node_.children()) {
    if (each.type() == pugi::node_element && without_prefix(each.name()) == name) return XmlNode(each, *file_);
  }
  return std::nullopt;
}

std::vector<XmlNode> XmlNode::all(std::string_view name) const {
  std::vector<XmlNode> found;
  walk([&](const XmlNode& each) {
    if (each.name() == name) found.push_back(each);
    return true;
  });
  return found;
}

void XmlNode::walk(const std::function<bool(const XmlNode&)>& use) const {
  for (const XmlNode& each : children()) {
    if (use(each)) each.walk(use);
  }
}

std::string XmlNode::text() const {
  std::string text;
  for (const pugi::xml_node& each : node_.children()) {
    if (each.type() == pugi::node_pcdata || each.type() == pugi::node_cdata) text += each.value();
    if (each.type() == pugi::node_element) text += XmlNode(each, *file_).text();
    if (std::string_view(each.name()) == "br") text += ' ';  // of hOCR
  }
  return text;
}

std::string XmlNode::where() const { return fmt::format("{}, <{}>", file_->line_of(node_.offset_debug()), name()); }

void XmlNode::refuse(std::string what, std::string found, std::string allowed, std::string remedy) const {
  throw DataError({.what = std::move(what),
                   .where = where(),
                   .found = std::move(found),
                   .allowed = std::move(allowed),
                   .remedy = remedy.empty() ? kRemedy : std::move(remedy)});
}

XmlFile::XmlFile(std::string_view text, const std::string& file) : text_(text), file_(file) {
  // Line ends become "\n", and the five entities of XML and numbers are resolved; a document type is ignored. White
  // space alone between two elements may part words.
  const pugi::xml_parse_result result =
      document_.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_ws_pcdata);
  if (!result || !document_.document_element()) {
    const auto at = static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(result.offset, 0, static_cast<std::ptrdiff_t>(text.size())));
    throw DataError({.what = "a file is not well-formed XML",
                     .where = line_of(result.offset),
                     .found = fmt::format("{}, near {}", result ? "no element" : result.description(),
                                          in_quotes(text.substr(at < 20 ? 0 : at - 20, 40))),
                     .allowed = "XML in which every element is closed",
                     .remedy = "write the file again; HTML becomes XML by: tidy -asxml -numeric"});
  }
  int depth = 0;
  // pugixml reads any depth, but all walks over the tree here are recursive.
  for (pugi::xml_node node = document_.document_element(); node;) {
    if (depth > kMaxDepth) {
      throw DataError({.what = "XML nests deeper than in any file of its kind",
                       .where = line_of(node.offset_debug()),
                       .found = "more than " + counted(kMaxDepth, "level"),
                       .allowed = fmt::format("at most {}", kMaxDepth),
                       .remedy = "the file is damaged or was made to mislead: get it again"});
    }
    if (node.first_child()) {
      node = node.first_child();
      ++depth;
      continue;
    }
    while (node && !node.next_sibling()) {
      node = node.parent();
      --depth;
    }
    if (node) node = node.next_sibling();
  }
}

std::string XmlFile::line_of(std::ptrdiff_t offset) const {
  if (offset < 0) return file_;
  const auto end = std::min(static_cast<std::size_t>(offset), text_.size());
  return fmt::format("{}, line {}", file_,
                     1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
}

std::string_view xml_root_name(std::string_view text) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    std::string_view rest = text.substr(at);
    const auto behind = [&](std::string_view end) {
      const std::size_t found = rest.find(end);
      return found == std::string_view::npos ? text.size() : at + found + end.size();
    };
    if (rest.starts_with("<?")) {
      at = behind("?>");
    } else if (rest.starts_with("<!--")) {
      at = behind("-->");
    } else if (rest.starts_with("<!")) {
      at = behind(">");
    } else {
      const std::string_view name = rest.substr(1, rest.find_first_of(" \t\r\n/>", 1) - 1);
      return without_prefix(name);
    }
  }
  return {};
}

}  // namespace plimsoll
