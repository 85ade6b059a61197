// Converts samples in a folder of their own, with pictures of any size beside them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "convert/convert.h"
#include "harness/paths.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {

namespace fs = std::filesystem;
using nlohmann::json;

class ConvertTest : public testing::Test {
 protected:
  ConvertTest()
      : before_(set_log_sink([this](LogLevel, std::string_view line) { said_ += std::string(line) + "\n"; })) {}
  ~ConvertTest() override { set_log_sink(before_); }

  fs::path at(const std::string& name) const { return folder_.path() / name; }
  // Copies a sample of test/convert/samples here.
  fs::path sample(const std::string& name) const {
    fs::copy_file(source_dir() / "test/convert/samples" / name, at(name), fs::copy_options::overwrite_existing);
    return at(name);
  }
  fs::path file(const std::string& name, const std::string& text) const {
    fs::create_directories(at(name).parent_path());
    std::ofstream(at(name), std::ios::binary) << text;
    return at(name);
  }
  // A white picture, in the simplest format that Plimsoll reads.
  fs::path picture(const std::string& name, int width, int height) const {
    std::ostringstream text;
    text << "P5 " << width << " " << height << " 255\n"
         << std::string(static_cast<std::size_t>(width) * height, '\xFF');
    return file(name, text.str());
  }
  static std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static std::vector<json> lines_of(const fs::path& path) {
    std::vector<json> lines;
    std::istringstream text(text_of(path));
    for (std::string line; std::getline(text, line);) {
      if (!line.empty()) lines.push_back(json::parse(line));
    }
    return lines;
  }

  // Converts to pages, and returns them.
  std::vector<json> pages(const fs::path& input, ConvertOptions options = {}) {
    options.inputs = {input};
    options.output = at("pages.out.jsonl");
    summary_ = convert(options);
    return lines_of(options.output);
  }
  // Converts to another format, and returns its text.
  std::string text(const fs::path& input, const std::string& to, ConvertOptions options = {}) {
    options.inputs = {input};
    options.output = at("out." + to);
    options.to = to;
    summary_ = convert(options);
    return text_of(options.output);
  }
  std::string lost() const {
    std::string all;
    for (const std::string& line : summary_.lost) all += line + "\n";
    return all;
  }
  // The problem that a conversion is refused with.
  Problem refused(const fs::path& input, ConvertOptions options = {}) {
    fs::remove(at("pages.out.jsonl"));
    try {
      pages(input, std::move(options));
    } catch (const Error& error) {
      EXPECT_NE(error.exit_code(), ExitCode::kInternal) << error.what();
      EXPECT_FALSE(fs::exists(at("pages.out.jsonl"))) << "half a file was left";
      const Problem& problem = error.problem();
      for (const std::string& field : {problem.what, problem.where, problem.found, problem.allowed, problem.remedy}) {
        EXPECT_FALSE(field.empty()) << error.what();
      }
      return problem;
    }
    ADD_FAILURE() << input << " is not refused";
    return {};
  }

  ConvertSummary summary_{};
  std::string said_{};

 private:
  ScratchFolder folder_;
  LogSink before_;
};

}  // namespace plimsoll::test
