// Which files hold documents to read.
//
//   DocumentOptions options{.files = find_documents({"scans", "contract.pdf"}), .threads = 4};
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

// Returns the files that `given` names, each once: a file itself, those that match a pattern, a directory's pictures
// and PDF files sorted by name, without those of its subdirectories. Warnings count files that are named more than
// once, and a directory's pictures in formats that are not read. Throws DataError for a name that does not exist, for a
// pattern that nothing matches, and for a directory without such files.
std::vector<std::filesystem::path> find_documents(const std::vector<std::string>& given);

// Returns whether a file is one of PDF; one of which nothing is known is if its name says so.
bool is_pdf(const std::filesystem::path& path);

}  // namespace plimsoll
