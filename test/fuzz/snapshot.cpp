#include "doctor/snapshot.h"

#include "cli/doctor_text.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"

void plimsoll::fuzz::snapshot(std::string_view input) {
  const MemoryFile file(input);
  may_refuse([&] {
    const doctor::Snapshot snapshot = doctor::read_snapshot(file.path());
    snapshot_text(snapshot);
    snapshot_json(snapshot).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
}
