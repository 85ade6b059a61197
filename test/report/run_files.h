// Directories of runs as tests need them, and runs as facts.
#pragma once

#include <string>

#include "report/facts.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {

inline constexpr const char* kArena = R"json({"version":1,"arena_bytes":3072,"persistent_bytes":1024,"persistent":[
["dense.weight","parameter","kept",0,512],["dense.weight.exp_avg","optimizer state","kept",512,512]],
"programs":[{"kind":"step","runs":1,"transient_bytes":2048,"peak_node":1,
"nodes":[["dense","linear","forward",0.001],["loss","cross_entropy","forward",0.002],["dense.grad","linear_grad","backward",0.004]],
"tensors":[["pixels","batch","kept",1024,1024,0,3],["dense","activation","recomputed",2048,512,0,2],
["dense.grad","gradient","brief",2048,512,2,3],["loss (scratch)","scratch","brief",2560,512,1,2]]}]})json";

inline constexpr const char* kPlan = R"json({"predicted_peak_bytes": 4096, "budget_bytes": 8192, "updates": 20,
"micro_batch_size": 2, "gradient_accumulation_steps": 1, "parameters": 128, "trained_parameters": 64,
"items": [{"name": "process", "bytes": 1024}, {"name": "activations (step)", "bytes": 3072}]})json";

inline constexpr const char* kMetrics =
    R"json({"step": 10, "epoch": 0.5, "loss": 2.5, "learning_rate": 0.001, "grad_norm": 1.5, "pages_per_second": 12.5, "data_wait": 0.1, "resident_bytes": 4000}
{"step": 10, "epoch": 0.5, "eval_loss": 2.25, "eval_f1": 0.25, "eval_precision": 0.5, "eval_recall": 0.2, "eval_pages": 3, "eval_per_label": {"DATE": {"f1": 0.5, "precision": 0.5, "recall": 0.5, "support": 4}}, "eval_confusion": {"labels": ["O", "DATE"], "counts": [[7, 1], [2, 4]]}}
{"step": 20, "epoch": 1, "loss": 1.5, "learning_rate": 0, "grad_norm": null, "pages_per_second": 13.5, "data_wait": 0.05, "resident_bytes": 4100}
)json";

inline constexpr const char* kSummary =
    R"json({"steps": 20, "seconds": 61.5, "measured_peak_bytes": 4050, "pages_per_second": 13, "loss": 1.5})json";

inline constexpr const char* kFindings = R"json({"version": 1, "warnings": 1, "findings": [{"severity": "warning",
"kind": "box-outside", "count": 3, "what": "a box lies outside the page", "places": ["train.jsonl:4"],
"found_at_places": ["[0, 0, 1200, 10]"], "allowed": "0 to 1000", "remedy": "see --box-format"}]})json";

inline constexpr const char* kWorst = R"json({"version":1,"pages":[
{"id":"p1","where":"test.jsonl:1, page 'p1'","loss":0.5,"image":"","width":100,"height":50,"caption":"","scheme":"IOB","links":[],
"words":[["Total","B-TOTAL",0.75,"B-TOTAL",10,10,40,20],["2012","B-TOTAL",0.5,"B-DATE",50,10,80,20]]},
{"id":"p2","where":"test.jsonl:2, page 'p2'","loss":1.5,"image":"","width":100,"height":50,"caption":"","scheme":"IOB","links":[],
"words":[["Total","O",0.75,"B-TOTAL",10,10,40,20]]}]})json";

inline constexpr const char* kArgs =
    R"json({"plimsoll": "0.1.0", "options": {"model": "layoutlmv3-tiny", "learning_rate": 0.001}, "machine": {"processor": "a processor", "device": "cpu"}})json";

inline void write_run(const ScratchFolder& folder, const std::string& name) {
  folder.write(name + "/args.json", kArgs);
  folder.write(name + "/plan.json", kPlan);
  folder.write(name + "/arena.json", kArena);
  folder.write(name + "/metrics.jsonl", kMetrics);
  folder.write(name + "/summary.json", kSummary);
  folder.write(name + "/findings.json", kFindings);
  folder.write(name + "/worst.json", kWorst);
}

}  // namespace plimsoll::test
