// What happens on the device: assertions in kernels, bad accesses, hardware.
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

// An embedding's index is too large, on the CPU or in a CUDA kernel, from PyTorch 1.0 to today.
const AnyOf kEmbeddingIndex = {"index out of range in self",
                               "srcindex < srcselectdimsize",
                               "indexselectlargeindex",
                               "indexselectsmallindex",
                               "vectorized gather kernel index out of bounds",
                               "vectorized_gather_kernel",
                               "index out of range: tried to access index",
                               "embedding.cu*assert",
                               "embedding_kernel*assert"};
// The same, if the traceback names the table but CUDA only says that some assertion failed.
const AnyOf kEmbeddingOrAssert = {"index out of range in self",
                                  "srcindex < srcselectdimsize",
                                  "indexselectlargeindex",
                                  "indexselectsmallindex",
                                  "vectorized gather kernel index out of bounds",
                                  "vectorized_gather_kernel",
                                  "index out of range: tried to access index",
                                  "device-side assert triggered"};

// Returns `rules`, and the rules for library calls that fail because an assertion has broken the context before.
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
      {.name = "not-deterministic",
       .when = {"does not have a deterministic implementation, but you set",
                "this operation is not deterministic because it uses cublas"},
       .what = "the run demands deterministic algorithms, and an operation has none here",
       .cause =
           "torch.use_deterministic_algorithms(True) or full_determinism=True is set, and cuBLAS needs a workspace of "
           "fixed size for that\n"
           "The operation, which the message names, has no deterministic form in this version of PyTorch",
       .confirm = "the message names the operation, or CUBLAS_WORKSPACE_CONFIG",
       .fix = "CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment, set before Python starts\n"
              "torch.use_deterministic_algorithms(True, warn_only=True), if an operation has no such form\n"
              "another operation, or a newer PyTorch",
       .command = "plimsoll train gives the same bits each time, without an option"},
      {.name = "hccl-error",
       .level = Level::kConsequence,
       .when = {"hccl error in", "call hccl api failed"},
       .what = "HCCL, which connects Ascend NPUs, reported an error",
       .cause = "The lines with EI, EJ or EZ numbers below it say which\n"
                "Another rank has failed, or the links between the NPUs do not work",
       .confirm = "the first error of every rank, and ~/ascend/log",
       .fix = "repair what the first rank reports\n"
              "versions of CANN, driver and torch_npu that belong together"},
      {.name = "npu-busy",
       .when = {"failed to initialize the hccp process", "maybe the last training process is running", "ej0001:"},
       .refines = {"hccl-error"},
       .what = "an Ascend NPU is still held by an earlier run",
       .cause = "A process of the last run has not ended, or ended some seconds ago: HCCL's helper on the device still "
                "runs\n"
                "Two runs share the NPUs of this machine",
       .confirm = "npu-smi info; ps aux | grep python",
       .fix = "end what is left of the earlier run, wait ten seconds, and start again\n"
              "other devices: ASCEND_RT_VISIBLE_DEVICES"},
      {.name = "npu-timeout",
       .when = {"rtdevicesynchronize execute failed*task timeout", "npusynchronizedevice*task timeout",
                "error code is 107020", "runtime result = 107020", "ei0002"},
       .refines = {"hccl-error"},
       .what = "an Ascend NPU waited for a task that did not end in time",
       .cause =
           "Another rank failed, or is somewhere else (saving, evaluating, reading data): the task waits for it in a "
           "collective of HCCL\n"
           "The links between the NPUs or nodes do not work\n"
           "An operator hangs, in this version of CANN or torch_npu",
       .confirm = "the first error in every worker's log, and in ~/ascend/log: one of them did not wait",
       .fix = "repair what the first rank reports\n"
              "HCCL_EXEC_TIMEOUT=3600, HCCL_CONNECT_TIMEOUT=1800, where a rank is only slow\n"
              "versions of CANN, driver and torch_npu that belong together"},
      {.name = "bbox-range",
       .when = {"bbox coordinate values should be within 0-1000", "coordinate*should be within 0-1000",
                "coordinate*should be in*0*1000", "bounding box*should be*0*1000", "assert*bbox*<= 10"},
       .refines = {"embedding-index", "embedding-long-page", "device-assert", "worker-exception", "bbox-index"},
       .what = "a word's box lies outside 0 to 1000",
       .cause = "Boxes are in pixels or points, or scaled by another size than this image's (resized, rotated or "
                "cropped after OCR)\n"
                "A box reaches beyond the page's edge, or is negative\n"
                "Corners are mirrored (right before left, bottom above top), or the order is x, y, width, height",
       .confirm =
           "print bbox.min() and bbox.max() of the failing batch; x2 - x1 and y2 - y1 must not be negative either",
       .fix = "scale by the page's size: int(1000 * x / width), int(1000 * y / height), and cut to 0…1000\n"
              "give the corners as left, top, right, bottom",
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
       .cause = "Boxes outside 0 to 1000: in pixels or points, or scaled by another size than the page's\n"
                "Right before left or bottom above top, so that width or height is negative; or x, y, width, height "
                "instead of corners\n"
                "On the GPU, which reports late: a token id or position out of range, looked up just before",
       .confirm = "print bbox.min(), bbox.max(), (x2 - x1).min() and (y2 - y1).min() of the failing batch",
       .fix = "scale by the page's size: int(1000 * x / width), int(1000 * y / height), and cut to 0…1000\n"
              "put left before right and top before bottom: (left, top, right, bottom)",
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page, word and box"},
      {.name = "position-index",
       .when = kEmbeddingOrAssert,
       .with = {{"position_embeddings(position_ids", "self.position_embeddings(", "self.wpe(", "embed_positions(",
                 "in create_position_ids"}},
       .refines = with_what_follows({"embedding-index", "embedding-long-page", "device-assert", "assert-long",
                                     "worker-exception", "sequence-warning"}),
       .what = "a text or page has more tokens than the model has positions",
       .cause =
           "The tokenizer was not told to truncate: more than max_position_embeddings tokens (512 for BERT's kin, 1024 "
           "for GPT-2 and BART) reach past the position table\n"
           "max_length is larger than the table: RoBERTa's kin have 514 rows, of which padding's two cannot be used\n"
           "Prompt and generated tokens together are longer than the table, or tokens were added after truncation "
           "(special tokens, images, a soft prompt)\n"
           "On the GPU, which reports late: a token id beyond the vocabulary, looked up just before",
       .confirm = "len(input_ids) of the failing sample against config.max_position_embeddings; \"Token indices "
                  "sequence length is longer than the specified maximum\" earlier in the log",
       .fix =
           "truncation=True, max_length=512 (or what config.max_position_embeddings says, less 2 for RoBERTa's kin)\n"
           "stride with return_overflowing_tokens=True, so that nothing is lost\n"
           "in generation a shorter prompt or a smaller max_new_tokens\n"
           "a model with longer positions",
       .command =
           "plimsoll train cuts long pages into windows with overlap, without being asked; plimsoll check counts them"},
      {.name = "word-index",
       .when = kEmbeddingOrAssert,
       .with = {{"word_embeddings(input_ids", "self.word_embeddings(", "self.embed_tokens(", "self.wte(",
                 "self.word_embeddings (", "in shared_embedding"}},
       .refines = with_what_follows(
           {"embedding-index", "embedding-long-page", "device-assert", "assert-long", "worker-exception"}),
       .what = "a token id lies outside the model's vocabulary",
       .cause = "Tokenizer and model do not belong together: another model's or a newly trained tokenizer, whose ids "
                "go beyond the embedding's rows\n"
                "Tokens were added (a padding or special token, too) without resize_token_embeddings\n"
                "Padding is -100 or -1 in input_ids or decoder_input_ids, where it belongs in labels only\n"
                "The embedding of your own model has one row too few: vocab_size counts from 0, and padding and "
                "unknown words need rows",
       .confirm = "compare len(tokenizer) with model.config.vocab_size, and input_ids.min() and .max()",
       .fix = "load tokenizer and model from the same directory\n"
              "after add_tokens: model.resize_token_embeddings(len(tokenizer))\n"
              "pad input_ids with tokenizer.pad_token_id; -100 belongs in labels only\n"
              "nn.Embedding(max id + 1, …), or map unknown ids to one that is there",
       .command = "plimsoll check --model DIR --data pages.jsonl"},
      {.name = "token-type-index",
       .when = kEmbeddingOrAssert,
       .with = {{"self.token_type_embeddings("}},
       .refines = with_what_follows(
           {"embedding-index", "embedding-long-page", "device-assert", "assert-long", "worker-exception"}),
       .what = "a token type id is outside the type table",
       .cause = "type_vocab_size is 1 for RoBERTa's kin (LayoutLMv3): BERT's 0 and 1 do not fit\n"
                "token_type_ids come from another model's tokenizer, or number segments beyond the table\n"
                "On the GPU, which reports late: a token id or position out of range, looked up just before",
       .confirm = "token_type_ids.max() against model.config.type_vocab_size",
       .fix = "leave token_type_ids out (return_token_type_ids=False), or use the model's own tokenizer\n"
              "a larger type_vocab_size in the config of a model that is trained from scratch"},
      {.name = "embedding-index",
       .when = kEmbeddingIndex,
       .refines = with_what_follows({"device-assert", "worker-exception"}),
       .what = "an index is too large (or negative) for an embedding's table",
       .cause = "An id is not below the table's rows: another model's tokenizer, tokens added without "
                "resize_token_embeddings, a vocabulary with one row too few\n"
                "A text of more tokens than the model has positions (512 for BERT's kin)\n"
                "-100, -1 or another padding among the ids, or token_type_ids that the model does not have\n"
                "A box outside 0 to 1000, where the model reads boxes (LayoutLM)",
       .confirm = kBlocking,
       .fix = "input_ids.max() < model.get_input_embeddings().num_embeddings: "
              "model.resize_token_embeddings(len(tokenizer)), or the model's own tokenizer\n"
              "truncation=True, max_length=512 (or config.max_position_embeddings)\n"
              "all ids >= 0: pad with tokenizer.pad_token_id; where there are boxes, bbox.max() <= 1000",
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page, word, value and limit before "
                  "anything runs",
       // Positions are counted: the first one that a table lacks equals its number of rows, a round number (plus two in
       // RoBERTa).
       .tellings = {{.when = {"index 64 out of table with 63", "index 100 out of table with 99",
                              "index 128 out of table with 127", "index 200 out of table with 199",
                              "index 256 out of table with 255", "index 500 out of table with 499",
                              "index 512 out of table with 511", "index 514 out of table with 513",
                              "index 1000 out of table with 999", "index 1024 out of table with 1023",
                              "index 1026 out of table with 1025", "index 2048 out of table with 2047",
                              "index 4096 out of table with 4095"},
                     .cause = "A text of more tokens",
                     .fix = "truncation=True"}}},
      {.name = "embedding-long-page",
       .when = kEmbeddingIndex,
       .anywhere = {{"token indices sequence length is longer than"}},
       .refines = with_what_follows(
           {"embedding-index", "device-assert", "assert-long", "worker-exception", "sequence-warning"}),
       .what = "an index is too large (or negative) for an embedding's table, most likely a long text's positions",
       .cause = "A text or page has more tokens than the model has positions: the tokenizer warned of one, in the line "
                "quoted\n"
                "A token id beyond the vocabulary: tokens added without resize_token_embeddings, or another model's "
                "tokenizer\n"
                "A box outside 0 to 1000, where the model reads boxes (LayoutLM)",
       .confirm = "max(len(ids) for ids in input_ids) against config.max_position_embeddings; if it is below, run the "
                  "same batch on the CPU, or with CUDA_LAUNCH_BLOCKING=1: CUDA reports errors late, at some other line",
       .fix = "truncation=True, max_length=512 (or the model's own maximum)\n"
              "stride and return_overflowing_tokens=True, so that nothing is lost\n"
              "else input_ids.max() < vocab_size, and bbox.max() <= 1000 where there are boxes, all of them >= 0",
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
                "Ids begin at 1, or are not numbered without gaps\n"
                "What is to be ignored has another number than the loss's ignore_index (-100): -1, the padding's id, "
                "255 in masks of segmentation\n"
                "In a language model: token ids beyond the head, for tokens were added without resize_token_embeddings",
       .confirm = "labels.min(), labels.max() against model.config.num_labels; only -100 may be negative",
       .fix = "from_pretrained(…, num_labels=len(label_list), id2label=…, label2id=…), or the last layer with as many "
              "outputs as classes\n"
              "number the labels 0 to num_labels - 1\n"
              "pad labels with -100, or CrossEntropyLoss(ignore_index=255)",
       .command =
           "plimsoll check --model DIR --data pages.jsonl --labels …; plimsoll train takes the labels from the data"},
      {.name = "bce-autocast",
       .when = {"unsafe to autocast"},
       .what = "BCELoss is not allowed under mixed precision",
       .cause = "binary_cross_entropy and nn.BCELoss take probabilities, which half precision rounds to 0 and 1",
       .confirm = "the loss in the line that the traceback names",
       .fix = "BCEWithLogitsLoss (binary_cross_entropy_with_logits) on the logits, without the sigmoid\n"
              "with torch.autocast('cuda', enabled=False): around the loss, on outputs.float()"},
      {.name = "bce-range",
       .when = {"input_val >= zero && input_val <= one", "input >= 0. && *input <= 1", "input >= 0 && input <= 1",
                "all elements of input should be between 0 and 1", "all elements of target should be between 0 and 1"},
       .refines = with_what_follows({"device-assert", "assert-long", "label-index"}),
       .what = "binary cross-entropy got numbers outside 0 to 1",
       .cause = "BCELoss was given logits without a sigmoid\n"
                "The targets are no probabilities: class numbers, masks of 0 to 255, -100\n"
                "The model's output is NaN: it diverged, or half precision overflowed",
       .confirm = "print min, max and isnan().any() of input and target",
       .fix = "BCEWithLogitsLoss on logits\n"
              "targets as 0 or 1: mask / 255, one-hot rows, or CrossEntropyLoss for class numbers\n"
              "if it is NaN, a lower learning rate and bf16 or F32; torch.autograd.set_detect_anomaly(True) finds "
              "where it begins"},
      {.name = "sampling-nan",
       .when = {"probability tensor contains either", "multinomialkernel*assert", "cumdist[size - 1] >",
                "invalid multinomial distribution"},
       .refines = {"device-assert", "assert-long"},
       .what = "sampling got probabilities that are NaN, infinite or negative",
       .cause = "The logits overflowed: half precision (fp16) on a model trained in bfloat16\n"
                "The weights diverged in training (reinforcement learning, a high learning rate), or were loaded or "
                "quantised wrongly\n"
                "The batch is padded on the wrong side or has rows of padding only: attention then yields NaN\n"
                "Options of sampling: a temperature of almost 0, logits processors that leave no token",
       .confirm = "torch.isfinite(logits).all() just before; do_sample=False: are the words sound?",
       .fix = "bfloat16 or F32 instead of fp16\n"
              "tokenizer.padding_side = 'left', a padding token, and pass attention_mask\n"
              "the base model or an earlier checkpoint: if that works, a lower learning rate"},
      {.name = "gather-index",
       .when = {"idx_dim >= 0 && idx_dim < index_size", "scattergatherkernel",
                "scatter gather kernel index out of bounds", "runtimeerror: index*is out of bounds for dimension"},
       .refines = with_what_follows({"device-assert", "assert-long"}),
       .what = "gather or scatter got an index outside the tensor",
       .cause = "Indices of padding (-100, -1) were used without a mask\n"
                "The indices belong to another tensor: labels or token ids beyond its last dimension, positions of a "
                "longer or uncut sequence\n"
                "On the GPU, which reports late: an index of an earlier kernel",
       .confirm = "index.min() >= 0 and index.max() < the size of that dimension",
       .fix = "replace padding by 0 before (index.clamp(min=0)) and mask the result after\n"
              "compare index.max() with the size of that dimension; make both from the same tokenizer, labels and "
              "truncation"},
      {.name = "graph-index",
       .when = {"indexerror: index*is out of bounds for dimension", "indexkernel.cu*assert",
                "scattergatherkernel.cu*assert"},
       .with = {{"torch_geometric", "torch_scatter", "edge_index", "dgl/"}},
       .refines = with_what_follows({"tensor-index", "device-assert", "assert-long", "gather-index"}),
       .what = "edge_index names a node that the graph does not have",
       .cause =
           "Edges are numbered by the whole data set, and the graph or batch holds some of its nodes only\n"
           "Nodes were dropped (isolated, pooled, filtered), and edge_index was not renumbered\n"
           "x or num_nodes belongs to another graph: a collate function of one's own that does not shift edge_index",
       .confirm = "edge_index.max() against x.shape[0], for each graph before it is batched",
       .fix = "renumber: torch_geometric.utils.subgraph(…, relabel_nodes=True)\n"
              "batch with torch_geometric's own DataLoader; set num_nodes where isolated nodes count\n"
              "num_nodes=x.size(0) where a layer takes it"},
      {.name = "tensor-index",
       .when = {"-sizes[i] <= index && index < sizes[i]", "index >= -sizes[i]", "indexkernel.cu*assert",
                "indexerror: index*is out of bounds for dimension", "index*is out of bounds for axis"},
       .without = {"idx_dim >= 0"},
       .refines = with_what_follows({"device-assert", "assert-long", "gather-index"}),
       .what = "tensor[index] reached outside the tensor",
       .cause =
           "An index computed from the data (a word id, a label, a position) is not below the size of that dimension\n"
           "The tensor is shorter than the code expects: cut by truncation, an empty or last batch, one class or box "
           "fewer\n"
           "The tensor has other dimensions than meant, or the index counts from 1",
       .confirm = "print the index's minimum and maximum and the tensor's shape at that line; on the GPU with "
                  "CUDA_LAUNCH_BLOCKING=1: CUDA reports errors late, at some other line",
       .fix = "make index and tensor from the same data, with the same truncation\n"
              "leave out samples that are empty or too long; mask padding (-100, -1) before indexing\n"
              "index the right dimension: tensor[:, i] instead of tensor[i]",
       .command = "plimsoll check --model DIR --data pages.jsonl where the index comes from pages"},
      {.name = "device-assert",
       .when = {"device-side assert triggered", "cudaerrorassert", "hiperrorassert",
                "device-side assertions were triggered"},
       .refines = with_what_follows({}),
       .what = "an assertion failed inside a CUDA kernel; the log does not hold its text",
       .cause = "A label not below num_labels, or padding labelled with something other than -100\n"
                "A token id beyond the vocabulary, or a text longer than the model's positions\n"
                "Probabilities or inputs that are NaN or outside 0 to 1: in sampling, in BCELoss\n"
                "A box outside 0 to 1000, where the model reads boxes (LayoutLM)",
       .confirm = kBlocking,
       .fix = "run one epoch of the data on the CPU, which names the line; then repair labels, ids or lengths\n"
              "restart Python afterwards: after an assertion nothing on the GPU works any more",
       .command =
           "plimsoll check --model DIR --data pages.jsonl reads all of it and names file, page, word, value and limit"},
      {.name = "assert-in-loss",
       .when = {"device-side assert triggered", "cudaerrorassert", "hiperrorassert"},
       .with = {{"in cross_entropy", "nll_loss", "loss_fct(", "crossentropyloss(", "f.cross_entropy(",
                 "in binary_cross_entropy", "self.criterion(", "criterion("}},
       .refines = with_what_follows({"device-assert", "assert-long"}),
       .what = "an assertion failed in a CUDA kernel when the loss was computed: most likely a label out of range",
       .cause = "A label not below num_labels (num_labels is 2 unless set), ids that begin at 1, or padding labelled "
                "with something other than -100\n"
                "Values outside 0 to 1, or NaN, where the loss is binary cross-entropy\n"
                "An earlier kernel's bad index, which CUDA reports late: a token id beyond the vocabulary, a text "
                "longer than the model's positions",
       .confirm = "labels.min(), labels.max() against model.config.num_labels; then the same batch on the CPU",
       .fix = "from_pretrained(…, num_labels=len(label_list), id2label=…, label2id=…), or as many outputs as classes\n"
              "pad labels with -100 (or set ignore_index to what they are padded with)\n"
              "BCEWithLogitsLoss instead of BCELoss",
       .command = "plimsoll check --model DIR --data pages.jsonl --labels …"},
      {.name = "assert-long",
       .when = {"device-side assert triggered", "cudaerrorassert", "hiperrorassert"},
       .anywhere = {{"predefined maximum length (", "token indices sequence length is longer than",
                     "input length of input_ids is*but `max_length` is set", "exceeds the model's maximum",
                     "`max_length` is ignored when", "asking to truncate to max_length but no maximum length"}},
       .refines = with_what_follows({"device-assert", "sequence-warning"}),
       .what = "an index out of range on the GPU: most likely more tokens than the model has positions",
       .cause = "The log warns that a text or a generated sequence is longer than the model's positions, or that "
                "nothing is truncated: the table of positions has no row for it\n"
                "A token id beyond the vocabulary: tokens added without resize_token_embeddings\n"
                "A label not below num_labels, which the same assertion reports",
       .confirm = kBlocking,
       .fix = "truncation=True with max_length (512, or what config.max_position_embeddings says) where the data are "
              "tokenized\n"
              "in generation max_new_tokens and the prompt together below the limit\n"
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
                "xid*: 31,", "memory access fault by gpu", "hiperrorillegaladdress"},
       .leads_to = {"cublas-failed", "cublas-not-initialized", "cudnn-failed", "launch-failure"},
       .what = "a CUDA kernel touched memory that is not its own",
       .cause = "A custom, fused or compiled kernel (flash-attn, xFormers, Triton, apex, bitsandbytes) that does not "
                "fit this GPU, PyTorch or input\n"
                "An index that no assertion guards, or a tensor of more than 2^31 elements\n"
                "A tensor on another GPU than the current one, in code that launches its own kernels\n"
                "A fault of this PyTorch, CUDA or driver, an overclocked or failing GPU, or an earlier failure that "
                "left the context broken",
       .confirm = "CUDA_LAUNCH_BLOCKING=1 for the line; compute-sanitizer python train.py for the kernel; look for an "
                  "earlier error in the log",
       .fix = "start afresh (the context is lost) with CUDA_LAUNCH_BLOCKING=1, then switch off fused and custom "
              "kernels one by one (attn_implementation='eager', no torch.compile)\n"
              "a smaller batch to rule out 2^31; torch.cuda.set_device(local_rank) in every rank\n"
              "update PyTorch, driver and extensions together\n"
              "if it comes at another line every time, test the hardware (dcgmi diag -r 3)",
       .command = "plimsoll check --model DIR --data pages.jsonl for bad indices; plimsoll train resumes from the last "
                  "whole checkpoint"},
      {.name = "launch-failure",
       .when = {"unspecified launch failure", "cudaerrorlaunchfailure", "cuda_error_launch_failed",
                "hiperrorlaunchfailure", "hsa_status_error_exception", "hsa_status_error_illegal_instruction"},
       .leads_to = {"cublas-failed", "cublas-not-initialized", "cudnn-failed"},
       .what = "a CUDA kernel failed without a reason",
       .cause = "A bad index or a fault in a custom, fused or compiled kernel, as with an illegal access\n"
                "Extensions, PyTorch and driver that do not belong together, or a GPU that the build does not know\n"
                "A GPU that is overclocked, too hot, short of power or failing",
       .confirm = "dmesg | grep -i xid; CUDA_LAUNCH_BLOCKING=1; compute-sanitizer",
       .fix = "run with CUDA_LAUNCH_BLOCKING=1, and switch off fused and custom kernels one by one\n"
              "update driver, PyTorch and extensions together\n"
              "if it comes at another line every time: lower clocks or power (nvidia-smi -pl), and test the hardware "
              "(dcgmi diag -r 3)"},
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
       .cause = "Power or heat: the supply, its cables or the cooling do not carry the load\n"
                "A riser, slot or the GPU itself is faulty\n"
                "The driver, or power saving of the PCI bus",
       .confirm = "dmesg | grep -iE 'xid|fallen'; nvidia-smi does not list it",
       .fix = "power the machine off and on\n"
              "lower the power limit (nvidia-smi -pl), check power cables and temperature, reseat the card\n"
              "another driver version; if it comes back, have the GPU replaced",
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
       .cause = "An empty tensor (a batch, text or image without content) or one with too many rows reached a kernel "
                "that does not expect it\n"
                "A shape or type that a fused kernel does not take: heads times batch above 65,535, lengths that are "
                "no multiple of 8\n"
                "An extension, driver or PyTorch that do not belong together; a copy between GPUs without peer access",
       .confirm = "CUDA_LAUNCH_BLOCKING=1, then print the shapes at that line",
       .fix = "leave out empty samples; a smaller batch or shorter sequences\n"
              "attn_implementation='eager', no fused kernels, to find which one it is\n"
              "update PyTorch and its extensions together",
       .command = "plimsoll check --model DIR --data pages.jsonl names pages without words"},
      {.name = "device-busy",
       .when = {"busy or unavailable", "devices are busy or unavailable", "device is busy or unavailable",
                "cudaerrordevicesunavailable", "cudaerrordevicealreadyinuse", "exclusive-thread device already in use"},
       .what = "the GPU accepts no further process",
       .cause = "It is in exclusive mode and another process (or another rank) has it\n"
                "A process of a dead run still holds it, or the driver has not recovered from a crash\n"
                "The job was given another GPU than the one it uses (CUDA_VISIBLE_DEVICES, MIG)",
       .confirm = "nvidia-smi: Compute M. (E. Process), and the processes below",
       .fix = "end the other process, or another GPU with CUDA_VISIBLE_DEVICES\n"
              "sudo nvidia-smi -c DEFAULT\n"
              "ask the scheduler for a GPU and use the one that it sets; else reset the GPU or reboot",
       .command = "plimsoll doctor says who holds the GPU"},
      {.name = "invalid-device",
       .when = {"invalid device ordinal", "cudaerrorinvaliddevice", "invalid device id", "you requested gpu",
                "gpus, but only*gpus available", "gpus but only*available", "gpus requested but only",
                "device >= 0 && device < num_gpus", "cuda_error_invalid_device"},
       .what = "a GPU was asked for that does not exist",
       .cause =
           "More ranks were started on this machine than GPUs are visible, or cuda:1 was asked for where there is one\n"
           "CUDA_VISIBLE_DEVICES hides it: among the visible GPUs numbers begin at 0\n"
           "CUDA_VISIBLE_DEVICES was set in the script after torch had been imported or CUDA been used",
       .confirm = "torch.cuda.device_count(); echo $CUDA_VISIBLE_DEVICES; how many processes were started here",
       .fix = "cuda:0, or --nproc_per_node (devices= or gpus=, --num_processes) equal to the number of visible GPUs\n"
              "local_rank, not the global rank, as the device's number\n"
              "set CUDA_VISIBLE_DEVICES in the shell, or before torch is imported",
       .command = "plimsoll doctor lists the GPUs"},
  };
}

}  // namespace plimsoll::doctor
