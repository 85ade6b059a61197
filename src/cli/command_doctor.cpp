#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "base/in_quotes.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/doctor_text.h"
#include "data/file_kind.h"
#include "doctor/facts.h"

namespace plimsoll {
namespace {

struct DoctorOptions {
  std::string log, snapshot, directory = ".";
};

// A pipe with a writer is a log, too (doctor <(kubectl logs POD)). A pipe that nobody opens for writing within a second
// is refused, because reading it would wait forever. `file` was opened without waiting; its first bytes go to `reader`.
void wait_for_writer(int file, const std::string& path, doctor::LogReader& reader) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    char first = 0;
    const ssize_t count = ::read(file, &first, 1);  // 0: the pipe has no writer
    if (count > 0) reader.feed({&first, 1});
    if (count != 0) return;
    ::usleep(50000);
  }
  ::close(file);
  throw DataError({.what = "no process writes to the log's pipe",
                   .where = path,
                   .found = "a pipe without a writer",
                   .remedy = "pass a readable file, or - for standard input"});
}

// Refuses a regular file that is no text: nothing would be found in it, and the log may be inside.
void refuse_other_files(const std::string& path) {
  std::optional<FileKind> kind;
  try {
    kind = recognise_file(path);
  } catch (const DataError&) {  // reading the log says why it cannot be read
  }
  // A log may have zeros in it, as one of a machine that crashed has.
  if (!kind || kind->name == "binary data") return;
  std::string remedy = "pass the run's own output: python train.py 2>&1 | tee train.log";
  switch (kind->format) {
    case Format::kTable:
    case Format::kMarkup:
    case Format::kUtf16:
      return;
    case Format::kCompressed:
    case Format::kZip:
      remedy = kind->name == "a gzip file" ? fmt::format("unpack it: zcat {} | plimsoll doctor -", shell_word(path))
                                           : std::string("unpack it first, and pass the log that is in it");
      break;
    case Format::kWeights:
      remedy = fmt::format("if it is a memory snapshot: plimsoll doctor --snapshot {}", shell_word(path));
      break;
    default:
      break;
  }
  throw DataError({.what = "this file is no log",
                   .where = path,
                   .found = kind->name,
                   .allowed = "text, as a program prints it",
                   .remedy = std::move(remedy)});
}

// Uses read(2), so that pipes, terminals and files of many gigabytes are treated the same.
doctor::Diagnosis read_log(const std::string& path) {
  const bool standard_input = path == "-";
  if (!standard_input) refuse_other_files(path);
  const int file = standard_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  doctor::LogReader reader;
  if (file >= 0 && !standard_input) {
    struct stat info {};
    const bool known = ::fstat(file, &info) == 0;
    if (known && S_ISFIFO(info.st_mode)) wait_for_writer(file, path, reader);
    if (known && S_ISCHR(info.st_mode) && ::isatty(file) == 0 && info.st_rdev != ::makedev(1, 3)) {
      ::close(file);
      throw DataError({.what = "this device is no log, and may never end",
                       .where = path,
                       .found = "a character device",
                       .allowed = "a file, a pipe or a terminal",
                       .remedy = "pass a readable file, or - for standard input"});
    }
    ::fcntl(file, F_SETFL, 0);  // from here on reading waits for the writer
  }
  std::vector<char> buffer(1 << 20);
  ssize_t count = file < 0 ? -1 : 0;
  do {
    if (file >= 0) count = ::read(file, buffer.data(), buffer.size());
    if (count > 0) reader.feed({buffer.data(), static_cast<std::size_t>(count)});
  } while (count > 0 || (count < 0 && file >= 0 && errno == EINTR));
  const int error = errno;
  if (!standard_input && file >= 0) ::close(file);
  if (count < 0) {
    throw DataError({.what = "cannot read the log",
                     .where = path,
                     .found = std::strerror(error),
                     .remedy = "pass a readable file, or - for standard input"});
  }
  return reader.finish();
}

void run_doctor(const Invocation& invocation, const DoctorOptions& options) {
  if (!options.log.empty() && !options.snapshot.empty()) {
    throw UsageError({.what = "both a log and a snapshot were given",
                      .where = "--snapshot",
                      .allowed = "only one of them",
                      .remedy = "run `plimsoll doctor` twice"});
  }
  if (!options.log.empty()) {
    const doctor::Diagnosis diagnosis = read_log(options.log);
    if (diagnosis.rule == nullptr && !diagnosis.no_failure) invocation.exit_code = ExitCode::kUnrecognised;
    if (invocation.json) return print_json(diagnosis_json(diagnosis));
    return print_line(diagnosis_text(diagnosis, options.log == "-" ? "standard input" : options.log));
  }
  if (!options.snapshot.empty()) {
    const doctor::Snapshot snapshot = doctor::read_snapshot(options.snapshot);
    if (invocation.json) return print_json(snapshot_json(snapshot));
    return print_line(snapshot_text(snapshot));
  }
  doctor::Facts facts = doctor::probe(options.directory);
  tell_build(facts);
  const std::vector<doctor::Check> checks = doctor::examine(facts);
  if (invocation.json)
    print_json(environment_json(checks));
  else
    print_line(environment_text(checks));
  for (const doctor::Check& check : checks) {
    if (check.needed && check.state == doctor::State::kBroken) invocation.exit_code = ExitCode::kEnvironment;
  }
}

}  // namespace

void add_doctor(CLI::App& app, Invocation& invocation) {
  Command* command =
      add_command(app, invocation, "doctor", "Examine this machine, the log of a failed run, or a memory snapshot");
  const auto options = std::make_shared<DoctorOptions>();
  command->heading("What to examine");
  command
      ->add_option("LOG", options->log, "A log of PyTorch, transformers, the kernel or Plimsoll; - for standard input")
      ->type_name("");
  command->add_option("--snapshot", options->snapshot, "A memory snapshot: torch.cuda.memory._dump_snapshot('FILE')")
      ->type_name("FILE");
  command->add_option("--output-dir", options->directory, "Directory whose disk is checked")
      ->type_name("DIR")
      ->capture_default_str();
  command->footer(
      "Without arguments it checks this machine, with or without a GPU; exit code 5 if something that\n"
      "Plimsoll needs is broken. Logs are streamed and may have any size and content:\n"
      "  python train.py 2>&1 | tee train.log;  plimsoll doctor train.log\n"
      "  dmesg | plimsoll doctor -\n"
      "Nothing in a snapshot is run. It reports \"not recognised\" (exit code 7) rather than guess, and\n"
      "\"perhaps\" if the log also has an unknown error. Exit code 0: the failure is known, or nothing\n"
      "failed.");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_doctor(invocation, *options); }; });
}

}  // namespace plimsoll
