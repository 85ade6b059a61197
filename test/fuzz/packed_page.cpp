#include "data/packed_page.h"

#include "fuzz/targets.h"
#include "tasks/tasks.h"

// What comes back is packed in one way: packing it, unpacking that and packing it again gives the same bytes.
void plimsoll::fuzz::packed_page(std::string_view input) {
  if (input.empty()) return;
  const auto tasks = all_tasks();
  const TargetReader* reader = tasks[static_cast<unsigned char>(input.front()) % tasks.size()]->reader();
  may_refuse([&] {
    const PackedPage page = unpack_page(std::as_bytes(std::span(input.substr(1))), reader);
    const std::vector<std::byte> bytes = pack_page(page, reader);
    check(pack_page(unpack_page(bytes, reader), reader) == bytes, "a packed page comes back as it was");
  });
}
