#include "convert/formats.h"

#include "convert/readers.h"

namespace plimsoll {
namespace {

// The first row that recognises a file reads it, so a format whose marks may also occur in another one comes after it.
constexpr InputFormat kInputs[] = {
    {"alto", "ALTO, 2 to 4 (XML)", is_alto, read_alto},
    {"page-xml", "PAGE, 2010 to 2019 (XML)", is_page_xml, read_page_xml},
    {"hocr", "hOCR 1.2", is_hocr, read_hocr},
    {"tesseract", "what tesseract … tsv writes", is_tesseract, read_tesseract},
    {"textract", "results of AWS Textract (JSON)", is_textract, read_textract},
    {"azure", "results of Azure's Document Intelligence and Read (JSON)", is_azure, read_azure},
    {"google-vision", "results of Google's Cloud Vision (JSON)", is_google_vision, read_google_vision},
    {"document-ai", "documents of Google's Document AI (JSON)", is_document_ai, read_document_ai},
    {"label-studio", "Label Studio's export (JSON)", is_label_studio, read_label_studio},
    {"cord", "CORD's annotations (JSON)", is_cord, read_cord},
    {"funsd", "FUNSD's annotations (JSON)", is_funsd, read_funsd},
    {"xfund", "XFUND's annotations, a file of many forms (JSON)", is_xfund, read_xfund},
    {"pages", "pages, or what predict writes (JSONL)", is_pages, read_pages},
};

constexpr OutputFormat kOutputs[] = {
    {"pages", "pages for check, train, eval and predict (JSONL)", false, OwnBoxes::kAsTheyAre, write_pages},
    {"label-studio", "tasks for Label Studio's import (JSON)", true, OwnBoxes::kMeasured, write_label_studio},
    {"conll", "one word and its label per line, the usual input of seqeval", true, OwnBoxes::kUnread, write_conll},
};

}  // namespace

void PageNames::add(const FoundPage& page) {
  labels.insert(page.labels.begin(), page.labels.end());
  labels.erase("");
  for (const FoundEntity& entity : page.entities) entity_labels.insert(entity.label);
  classes.insert(page.classes.begin(), page.classes.end());
  has_links = has_links || page.has_links;
  has_predictions = has_predictions || page.predicted;
}

LabelScheme PageNames::scheme() const { return label_scheme(std::vector<std::string>(labels.begin(), labels.end())); }

std::span<const InputFormat> input_formats() { return kInputs; }
std::span<const OutputFormat> output_formats() { return kOutputs; }

const InputFormat* recognised(const Evidence& evidence) {
  for (const InputFormat& format : kInputs) {
    if (format.recognises(evidence)) return &format;
  }
  return nullptr;
}

std::string input_format_names() {
  std::string names;
  for (const InputFormat& format : kInputs) names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

}  // namespace plimsoll
