// What happens on the device: assertions in kernels, bad accesses, hardware.
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

// An embedding's index too large, on the CPU or in a CUDA kernel, from PyTorch 1.0 to today.
const AnyOf kEmbeddingIndex = {"index out of range in self",
                               "srcindex < srcselectdimsize",
                               "indexselectlargeindex",
                               "indexselectsmallindex",
                               "vectorized gather kernel index out of bounds",
                               "vectorized_gather_kernel",
                               "index out of range: tried to access index",
                               "embedding.cu*assert",
                               "embedding_kernel*assert"};
// The same, where the traceback names the table but CUDA only says that some assertion failed.
const AnyOf kEmbeddingOrAssert = {"index out of range in self",
                                  "srcindex < srcselectdimsize",
                                  "indexselectlargeindex",
                                  "indexselectsmallindex",
                                  "vectorized gather kernel index out of bounds",
                                  "vectorized_gather_kernel",
                                  "index out of range: tried to access index",
                                  "device-side assert triggered"};

// `rules`, and those of the libraries' calls that fail because an assertion has broken the context before them.
std::vector<std::string_view> with_what_follows(std::vector<std::string_view> rules) {
  rules.insert(rules.end(), {"cublas-not-initialized", "cublas-failed", "cudnn-failed", "oom-cublas", "cublas-old",
                             "cublas-invalid-value"});
  return rules;
}

constexpr std::string_view kBlocking =
    "run the same batch on the CPU, or with CUDA_LAUNCH_BLOCKING=1: CUDA reports errors late, at some other line";

}  // namespace

std::vector<Rule> device_rules() {
  return {
      {.name = "bbox-range",
       .when = {"bbox coordinate values should be within 0-1000", "coordinate*should be within 0-1000",
                "coordinate*should be in*0*1000", "bounding box*should be*0*1000", "assert*bbox*<= 10"},
       .refines = {"embedding-index", "embedding-long-page", "device-assert", "worker-exception", "bbox-index"},
       .what = "a word's box lies outside 0 to 1000",
       .cause = "LayoutLM takes boxes on a page of 1000 x 1000; these are in pixels, of another page size, mirrored "
                "(right before left), or beyond the page's edge",
       .confirm =
           "print bbox.min() and bbox.max() of the failing batch; x2 - x1 and y2 - y1 must not be negative either",
       .fix = "scale by the page's size: int(1000 * x / width), int(1000 * y / height), and cut to 0…1000",
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page, word and box; --box-format pixel "
                  "scales them"},
      {.name = "bbox-index",
       .when = kEmbeddingOrAssert,
       .with = {{"spatial_position_embeddings", "x_position_embeddings(", "y_position_embeddings(",
                 "h_position_embeddings(", "w_position_embeddings(", "left_position_embeddings",
                 "upper_position_embeddings", "right_position_embeddings", "lower_position_embeddings"}},
       .refines = with_what_follows({"embedding-index", "embedding-long-page", "device-assert", "assert-long",
                                     "worker-exception", "position-index"}),
       .what = "a box's coordinate, width or height is outside the 2-D position table (0 to 1023)",
       .cause = "Boxes outside 0 to 1000: pixels instead of thousandths, or right before left, whose width is negative",
       .confirm = "print bbox.min(), bbox.max(), (x2 - x1).min() and (y2 - y1).min() of the failing batch",
       .fix = "scale by the page's size: int(1000 * x / width), int(1000 * y / height), put left before right, and cut "
              "to 0…1000",
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page, word and box"},
      {.name = "position-index",
       .when = kEmbeddingOrAssert,
       .with = {{"position_embeddings(position_ids", "self.position_embeddings(", "self.wpe(", "embed_positions(",
                 "in create_position_ids"}},
       .refines = with_what_follows({"embedding-index", "embedding-long-page", "device-assert", "assert-long",
                                     "worker-exception", "sequence-warning"}),
       .what = "a page has more tokens than the model has positions",
       .cause = "The tokenizer was not told to truncate: a page of more than 512 tokens (514 positions less the "
                "padding's 2) reaches past the position table",
       .confirm = "len(input_ids) of the failing page; \"Token indices sequence length is longer than the specified "
                  "maximum\" earlier in the log",
       .fix = "truncation=True, max_length=512, and stride with return_overflowing_tokens=True so that nothing is lost",
       .command =
           "plimsoll train cuts long pages into windows with overlap, without being asked; plimsoll check counts them"},
      {.name = "word-index",
       .when = kEmbeddingOrAssert,
       .with = {{"word_embeddings(input_ids", "self.word_embeddings(", "self.embed_tokens(", "self.wte(",
                 "self.word_embeddings (", "in shared_embedding"}},
       .refines = with_what_follows(
           {"embedding-index", "embedding-long-page", "device-assert", "assert-long", "worker-exception"}),
       .what = "a token id lies outside the model's vocabulary",
       .cause = "The tokenizer is another model's, tokens were added without resize_token_embeddings, or padding is "
                "-100 or -1 in input_ids",
       .confirm = "compare len(tokenizer) with model.config.vocab_size, and input_ids.min() and .max()",
       .fix = "load tokenizer and model from the same directory; after add_tokens: "
              "model.resize_token_embeddings(len(tokenizer)); -100 belongs in labels only",
       .command = "plimsoll check --model DIR --data pages.jsonl"},
      {.name = "token-type-index",
       .when = kEmbeddingOrAssert,
       .with = {{"self.token_type_embeddings("}},
       .refines = with_what_follows(
           {"embedding-index", "embedding-long-page", "device-assert", "assert-long", "worker-exception"}),
       .what = "a token type id is outside the type table",
       .cause = "type_vocab_size is 1 for RoBERTa's kin (LayoutLMv3): BERT's 0 and 1 do not fit",
       .confirm = "token_type_ids.max() against model.config.type_vocab_size",
       .fix = "leave token_type_ids out, or use the model's own processor"},
      {.name = "embedding-index",
       .when = kEmbeddingIndex,
       .refines = with_what_follows({"device-assert", "worker-exception"}),
       .what = "an index is too large (or negative) for an embedding's table",
       .cause = "A box outside 0 to 1000, where the model reads boxes (LayoutLM)\n"
                "A token id beyond the vocabulary: another model's tokenizer, or tokens added without "
                "resize_token_embeddings\n"
                "A page of more tokens than the model has positions (512)",
       .confirm = kBlocking,
       .fix = "check bbox.max() <= 1000, input_ids.max() < vocab_size and input_ids.shape[1] <= 512, all of "
              "them >= 0",
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page, word, value and limit before "
                  "anything runs"},
      {.name = "embedding-long-page",
       .when = kEmbeddingIndex,
       .anywhere = {{"token indices sequence length is longer than"}},
       .refines = with_what_follows(
           {"embedding-index", "device-assert", "assert-long", "worker-exception", "sequence-warning"}),
       .what = "an index is too large (or negative) for an embedding's table, most likely a long page's positions",
       .cause = "Most likely a page of more than 512 tokens: the tokenizer warned of one, in the line quoted. Else, of "
                "LayoutLM's tables, boxes outside 0 to 1000 or a token id beyond the vocabulary",
       .confirm = "max(len(ids) for ids in input_ids) > 512; if it is not, run the same batch on the CPU, or with "
                  "CUDA_LAUNCH_BLOCKING=1: CUDA reports errors late, at some other line",
       .fix = "truncation=True, max_length=512, and stride with return_overflowing_tokens=True so that nothing is "
              "lost; else check bbox.max() <= 1000 and input_ids.max() < vocab_size, all of them >= 0",
       .command = "plimsoll train cuts long pages into windows with overlap; plimsoll check --model DIR --data "
                  "pages.jsonl names file, page, word, value and limit"},
      {.name = "label-index",
       .when = {"t >= 0 && t < n_classes", "cur_target >= 0 && cur_target < n_classes", "target*is out of bounds",
                "nll_loss*assert", "loss.cu*assert", "classnllcriterion", "label value is outside the valid range",
                "`target_val`*out of"},
       .without = {"input_val >= zero && input_val <= one"},
       .refines = with_what_follows(
           {"device-assert", "assert-long", "embedding-index", "embedding-long-page", "worker-exception"}),
       .what = "a label's number is not below the number of classes",
       .cause = "The model was made with fewer labels than the data has (num_labels is 2 unless set)\n"
                "Ids begin at 1, or padding is labelled with something other than -100",
       .confirm = "labels.min(), labels.max() against model.config.num_labels; only -100 may be negative",
       .fix = "from_pretrained(…, num_labels=len(label_list), id2label=…, label2id=…); pad labels with -100",
       .command =
           "plimsoll check --model DIR --data pages.jsonl --labels …; plimsoll train takes the labels from the data"},
      {.name = "bce-range",
       .when = {"input_val >= zero && input_val <= one", "input >= 0. && *input <= 1", "input >= 0 && input <= 1",
                "all elements of input should be between 0 and 1", "all elements of target should be between 0 and 1"},
       .refines = with_what_follows({"device-assert", "assert-long", "label-index"}),
       .what = "binary cross-entropy got numbers outside 0 to 1",
       .cause = "BCELoss was given logits without a sigmoid, or NaN",
       .confirm = "print the input's min, max and isnan().any()",
       .fix = "BCEWithLogitsLoss on logits; if it is NaN, find where it came from: "
              "torch.autograd.set_detect_anomaly(True)"},
      {.name = "sampling-nan",
       .when = {"probability tensor contains either", "multinomialkernel*assert", "cumdist[size - 1] >",
                "invalid multinomial distribution"},
       .refines = {"device-assert", "assert-long"},
       .what = "sampling got probabilities that are NaN, infinite or negative",
       .cause = "The logits overflowed: half precision on a model trained in bfloat16, or weights that diverged",
       .confirm = "torch.isfinite(logits).all() just before",
       .fix = "bfloat16 or F32 instead of half precision; greedy decoding shows whether the weights are sound"},
      {.name = "gather-index",
       .when = {"idx_dim >= 0 && idx_dim < index_size", "scattergatherkernel",
                "scatter gather kernel index out of bounds", "runtimeerror: index*is out of bounds for dimension",
                "gather(): expected*index"},
       .refines = with_what_follows({"device-assert", "assert-long"}),
       .what = "gather or scatter got an index outside the tensor",
       .cause = "Indices of padding (-100, -1) or of another length were used without a mask",
       .confirm = "index.min() >= 0 and index.max() < the size of that dimension",
       .fix = "replace padding by 0 before (index.clamp(min=0)) and mask the result after"},
      {.name = "tensor-index",
       .when = {"-sizes[i] <= index && index < sizes[i]", "index >= -sizes[i]", "indexkernel.cu*assert",
                "indexerror: index*is out of bounds for dimension", "index*is out of bounds for axis"},
       .without = {"idx_dim >= 0"},
       .refines = with_what_follows({"device-assert", "assert-long", "gather-index"}),
       .what = "tensor[index] reached outside the tensor",
       .cause =
           "An index computed from the data (a word id, a label, a position) is not below the size of that dimension",
       .confirm = kBlocking,
       .fix = "check the index's minimum and maximum against the shape at the line that it then names",
       .command = "plimsoll check --model DIR --data pages.jsonl where the index comes from pages"},
      {.name = "device-assert",
       .when = {"device-side assert triggered", "cudaerrorassert", "hiperrorassert",
                "device-side assertions were triggered"},
       .refines = with_what_follows({}),
       .what = "an assertion failed inside a CUDA kernel; the log does not hold its text",
       .cause = "A label not below num_labels, or padding labelled with something other than -100\n"
                "A box outside 0 to 1000, where the model reads boxes (LayoutLM)\n"
                "A token id beyond the vocabulary, or a page longer than the model's 512 positions",
       .confirm = kBlocking,
       .fix = "run one epoch of the data on the CPU; after an assertion the process must be started again, nothing on "
              "the GPU works any more",
       .command =
           "plimsoll check --model DIR --data pages.jsonl reads all of it and names file, page, word, value and limit"},
      {.name = "assert-in-loss",
       .when = {"device-side assert triggered", "cudaerrorassert", "hiperrorassert"},
       .with = {{"in cross_entropy", "nll_loss", "loss_fct(", "crossentropyloss(", "f.cross_entropy(",
                 "in binary_cross_entropy", "self.criterion(", "criterion("}},
       .refines = with_what_follows({"device-assert", "assert-long"}),
       .what = "an assertion failed in a CUDA kernel when the loss was computed: most likely a label out of range",
       .cause =
           "A label not below num_labels (num_labels is 2 unless set), ids that begin at 1, or padding labelled with "
           "something other than -100\n"
           "An earlier kernel's bad index, which CUDA reports late: a token id beyond the vocabulary, a box outside 0 "
           "to 1000",
       .confirm = "labels.min(), labels.max() against model.config.num_labels; then the same batch on the CPU",
       .fix = "from_pretrained(…, num_labels=len(label_list), id2label=…, label2id=…); pad labels with -100",
       .command = "plimsoll check --model DIR --data pages.jsonl --labels …"},
      {.name = "assert-long",
       .when = {"device-side assert triggered", "cudaerrorassert", "hiperrorassert"},
       .anywhere = {{"predefined maximum length (", "token indices sequence length is longer than",
                     "input length of input_ids is*but `max_length` is set", "exceeds the model's maximum",
                     "`max_length` is ignored when", "asking to truncate to max_length but no maximum length"}},
       .refines = with_what_follows({"device-assert", "sequence-warning"}),
       .what = "an index out of range on the GPU: most likely more tokens than the model has positions",
       .cause =
           "The log warns that a text or a generated sequence is longer than the model's positions, or that nothing "
           "is truncated: the table of positions has no row for it\n"
           "A label not below num_labels, or a token id beyond the vocabulary, which the same assertion reports",
       .confirm = kBlocking,
       .fix = "truncation=True with max_length (512, or what config.max_position_embeddings says) where the data are "
              "tokenized; in generation max_new_tokens and the prompt together below the limit\n"
              "restart Python afterwards: after an assertion nothing on the GPU works any more",
       .command = "plimsoll train cuts long pages into windows with overlap"},
      {.name = "assert-labels",
       .when = {"device-side assert triggered", "cudaerrorassert", "hiperrorassert"},
       .anywhere = {{"with an incompatible id to label map"}},
       .refines = with_what_follows({"device-assert", "assert-in-loss", "assert-long"}),
       .what = "an index out of range on the GPU: most likely a label not below num_labels",
       .cause = "The log warns that num_labels and id2label contradict each other: the head has fewer classes than the "
                "data has labels",
       .confirm = "labels.min(), labels.max() against model.config.num_labels; then the same batch on the CPU",
       .fix = "from_pretrained(…, num_labels=len(label_list), id2label=…, label2id=…), all from one list",
       .command = "plimsoll check --model DIR --data pages.jsonl --labels …"},
      {.name = "illegal-access",
       .when = {"illegal memory access", "cudaerrorillegaladdress", "cudaerrormisalignedaddress", "misaligned address",
                "warp illegal address", "illegal instruction was encountered", "cuda_error_illegal_address",
                "xid*: 31,", "memory access fault by gpu"},
       .leads_to = {"cublas-failed", "cublas-not-initialized", "cudnn-failed", "launch-failure"},
       .what = "a CUDA kernel touched memory that is not its own",
       .cause = "An index that no assertion guards (a custom or fused kernel, an extension built for another GPU or "
                "PyTorch), 32-bit offsets in a tensor of more than 2^31 elements, or a failure before it, such as a "
                "caught out-of-memory, that left the context broken",
       .confirm = "CUDA_LAUNCH_BLOCKING=1 for the line; compute-sanitizer python train.py for the kernel; look for an "
                  "earlier error in the log",
       .fix = "start afresh (the context is lost); smaller batch to rule out 2^31; switch off fused and custom kernels "
              "one by one; update PyTorch and extensions together",
       .command =
           "plimsoll check --data pages.jsonl for bad indices; plimsoll train resumes from the last whole checkpoint"},
      {.name = "launch-failure",
       .when = {"unspecified launch failure", "cudaerrorlaunchfailure", "cuda_error_launch_failed"},
       .leads_to = {"cublas-failed", "cublas-not-initialized", "cudnn-failed"},
       .what = "a CUDA kernel failed without a reason",
       .cause = "Like an illegal access: a bad index in an unguarded kernel; or a GPU that is overclocked, too hot or "
                "failing",
       .confirm = "dmesg | grep -i xid; CUDA_LAUNCH_BLOCKING=1; compute-sanitizer",
       .fix = "if it comes at another line every time, test the hardware (dcgmi diag -r 3), lower clocks; else treat "
              "it as an illegal access"},
      {.name = "launch-timeout",
       .when = {"the launch timed out and was terminated", "cudaerrorlaunchtimeout", "cuda_error_launch_timeout"},
       .what = "a kernel took too long for a GPU that also drives a display",
       .cause = "The system ends kernels after some seconds on such a GPU (TDR in Windows)",
       .confirm = "nvidia-smi: Disp.A says On",
       .fix = "a smaller batch, a GPU without display, or a longer TdrDelay"},
      {.name = "ecc-error",
       .when = {"uncorrectable ecc error", "uncorrectable nvlink error", "cudaerroreccuncorrectable", "xid*: 48,",
                "xid*: 63,", "xid*: 64,", "xid*: 94,", "xid*: 95,", "double bit ecc"},
       .refines = {"illegal-access", "launch-failure", "xid"},
       .leads_to = {"cublas-failed", "cudnn-failed", "cuda-unknown"},
       .what = "the GPU's memory failed (uncorrectable ECC error)",
       .cause = "The GPU's memory is faulty: the hardware, not the program",
       .confirm = "nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg | grep -i xid",
       .fix = "reset the GPU (nvidia-smi --gpu-reset) or reboot; if it comes back, have it replaced",
       .command = "plimsoll doctor counts uncorrected errors"},
      {.name = "gpu-lost",
       .when = {"fallen off the bus", "gpu is lost", "unable to determine the device handle", "xid*: 79,",
                "gpu has been disconnected", "cuda_error_device_unavailable"},
       .refines = {"xid", "launch-failure", "illegal-access", "no-device"},
       .leads_to = {"cublas-failed", "cudnn-failed", "cuda-unknown"},
       .what = "the GPU has vanished from the bus",
       .cause = "Power, heat, a riser or slot, or the driver; most often it is the hardware",
       .confirm = "dmesg | grep -iE 'xid|fallen'; nvidia-smi does not list it",
       .fix = "power the machine off and on; check power cables, temperature, the power limit (nvidia-smi -pl)",
       .command = "plimsoll doctor says whether clocks are held down by heat or power"},
      {.name = "xid",
       .level = Level::kConsequence,
       .when = {"nvrm: xid"},
       .what = "the NVIDIA driver logged an Xid error",
       .cause = "13, 31 and 43 come from a program's bad access; 48, 63, 64, 79, 94 and 95 from hardware",
       .confirm = "NVIDIA's table of Xid errors, with the number after the PCI address",
       .fix = "program: see the run's own log; hardware: reset or reboot, then test with dcgmi diag -r 3"},
      {.name = "invalid-launch",
       .when = {"invalid configuration argument", "cudaerrorinvalidconfiguration",
                "too many resources requested for launch", "cuda error: invalid argument"},
       .what = "a kernel was launched with an impossible shape",
       .cause = "An empty tensor (a batch without words or boxes) or one with too many rows reached a kernel that does "
                "not expect it",
       .confirm = "CUDA_LAUNCH_BLOCKING=1, then print the shapes at that line",
       .fix = "leave out empty pages; split huge batches; update PyTorch",
       .command = "plimsoll check --data pages.jsonl names pages without words"},
      {.name = "device-busy",
       .when = {"busy or unavailable", "devices are busy or unavailable", "device is busy or unavailable",
                "cudaerrordevicesunavailable", "cudaerrordevicealreadyinuse", "exclusive-thread device already in use"},
       .what = "the GPU accepts no further process",
       .cause = "It is in exclusive mode and another process has it, or a dead process still holds it",
       .confirm = "nvidia-smi: Compute M. (E. Process), and the processes below",
       .fix = "end the other process; sudo nvidia-smi -c DEFAULT",
       .command = "plimsoll doctor says who holds the GPU"},
      {.name = "invalid-device",
       .when = {"invalid device ordinal", "cudaerrorinvaliddevice", "invalid device id", "you requested gpu: [",
                "gpus, but only*gpus available", "gpus but only*available", "gpus requested but only",
                "device >= 0 && device < num_gpus"},
       .what = "a GPU was asked for that does not exist",
       .cause = "cuda:1 on a machine with one GPU, CUDA_VISIBLE_DEVICES that hides it (numbers begin at 0 among the "
                "visible ones), or more ranks than GPUs",
       .confirm = "torch.cuda.device_count(); echo $CUDA_VISIBLE_DEVICES",
       .fix = "cuda:0, or --nproc_per_node equal to the number of GPUs",
       .command = "plimsoll doctor lists the GPUs"},
  };
}

}  // namespace plimsoll::doctor
