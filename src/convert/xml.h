// XML from untrusted files, by pugixml. It never reads an external entity or declares one, and a file that nests too
// deep is refused, so that walking it by recursion is safe.
//
//   const std::string name = "scan.xml";
//   const XmlFile xml(text, name);
//   for (const XmlNode& page : xml.root().all("Page")) use(page.number("WIDTH"));
//
// Names are compared without their prefix: "alto:Page" is "Page".
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

class XmlFile;

// An element. The file must outlive it.
class XmlNode {
 public:
  std::string_view name() const;
  // Returns an attribute's value; nullopt if there is none.
  std::optional<std::string_view> attribute(const char* name) const;
  // Returns the same as a finite number. Throws DataError if it is anything else.
  std::optional<double> number(const char* name) const;
  // Returns its child elements, in order.
  std::vector<XmlNode> children() const;
  std::vector<XmlNode> children(std::string_view name) const;
  std::optional<XmlNode> child(std::string_view name) const;
  // Returns the elements of this name below it at any depth, in order, including nested ones.
  std::vector<XmlNode> all(std::string_view name) const;
  // Calls `use` for each element below it, in order; if `use` returns false, the element's content is skipped.
  void walk(const std::function<bool(const XmlNode&)>& use) const;
  // Returns all text in it, one piece after the other.
  std::string text() const;

  // Returns "scan.xml, line 12, <String>".
  std::string where() const;
  [[noreturn]] void refuse(std::string what, std::string found, std::string allowed, std::string remedy = {}) const;

 private:
  friend class XmlFile;
  XmlNode(pugi::xml_node node, const XmlFile& file) : node_(node), file_(&file) {}
  pugi::xml_node node_;
  const XmlFile* file_;
};

class XmlFile {
 public:
  // Throws DataError, with the line, for text that is not XML or nests deeper than kMaxDepth. `text` and `file` must
  // outlive it.
  XmlFile(std::string_view text, const std::string& file);
  XmlFile(std::string_view text, std::string&& file) = delete;
  XmlFile(const XmlFile&) = delete;
  XmlFile& operator=(const XmlFile&) = delete;

  XmlNode root() const { return {document_.document_element(), *this}; }

  static constexpr int kMaxDepth = 200;

 private:
  friend class XmlNode;
  std::string line_of(std::ptrdiff_t offset) const;

  std::string_view text_;
  const std::string& file_;
  pugi::xml_document document_;
};

// Returns the name, without its prefix, of the first element of a text that may be XML; empty if there is none.
std::string_view xml_root_name(std::string_view text);

}  // namespace plimsoll
