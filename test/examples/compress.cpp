// Compiles the examples of src/compress.
#include "base/work_folder.h"
#include "bundle/model_place.h"
#include "compress/vocabulary.h"

namespace plimsoll::examples {

void of_vocabulary(const ModelBundle& bundle, const TokenizedPages& pages) {
#include "compress/vocabulary.h.inc"
}

}  // namespace plimsoll::examples
