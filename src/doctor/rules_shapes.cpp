// Shapes that do not fit: sequences, products, losses, columns, and the inputs of metrics.
#include <algorithm>
#include <cstdlib>

#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

const AnyOf kProducts = {"mat1 and mat2 shapes cannot be multiplied",
                         "size mismatch, m1:",
                         "mat1 dim 1 must match mat2 dim 0",
                         "expected size for first two dimensions of batch2 tensor",
                         "incompatible matrix sizes",
                         "given normalized_shape="};

// True if the rows are a few numbers too long or too short: no layer was made for that size.
bool is_fed_a_few_more(const OomNumbers&, const LogFacts& f) {
  return f.fed && f.wanted && *f.wanted >= 64 && *f.fed != *f.wanted && std::abs(*f.fed - *f.wanted) <= 16;
}
// True for weights of 4 bits, which are packed in one row or column, two numbers per byte.
bool is_fed_packed_weights(const OomNumbers&, const LogFacts& f) {
  constexpr int kLongest = 100'000;
  return f.fed && f.wanted && f.outer && *f.fed > 1 && *f.wanted == 1 && *f.outer > kLongest;
}
bool joins_hidden_sizes(const OomNumbers&, const LogFacts& f) {
  constexpr int kSizes[] = {256,  312,  384,  512,  640,  768,  896,  1024, 1152, 1280, 1408,
                            1536, 1600, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192};
  const auto is_size = [&](const std::optional<int>& n) {
    return n && std::find(std::begin(kSizes), std::end(kSizes), *n) != std::end(kSizes);
  };
  return is_size(f.fed) && is_size(f.wanted);
}

}  // namespace

std::vector<Rule> shape_rules() {
  return {
      {.name = "sequence-too-long",
       .when = {"labels' sequence length*cannot exceed the maximum allowed length", kLongerThanPositions},
       .without = {"unet", "diffusers", "nn/modules/conv.py", "conv2d(", "interpolate("},
       .refines = {"broadcast", "sequence-warning"},
       .what = "a text or page has more tokens than the model has positions",
       .cause = "The tokenizer was not told to truncate: the model's buffers (positions, type ids, masks, visual "
                "tokens beside 512 text tokens) have 512 places\n"
                "One part of the batch (attention_mask, token_type_ids, labels, boxes) was cut or padded to 512, and "
                "input_ids was not\n"
                "Tokens were added after truncation: special tokens, a prompt, image tokens",
       .confirm = "{k: v.shape for k, v in batch.items()} of the failing batch: over 512?",
       .fix = "truncation=True, max_length=512 (or config.max_position_embeddings)\n"
              "stride and return_overflowing_tokens=True, so that nothing is lost\n"
              "the same length for every part of the batch",
       .command = "plimsoll train cuts long pages into windows with overlap; plimsoll check counts them"},
      {.name = "length-mismatch",
       .when = {kOneIsPadded},
       .without = {"unet", "diffusers", "nn/modules/conv.py", "conv2d(", "interpolate("},
       .refines = {"broadcast", "sequence-warning"},
       .what = "one part of the batch has another length than the rest: the longer one was padded, the other was not",
       .cause =
           "One of attention_mask, token_type_ids, position_ids, labels and boxes was padded to max_length and the "
           "others to the longest sequence of the batch, or not at all\n"
           "The collator pads only the keys that it knows: labels, boxes or a mask of one's own keep their length\n"
           "The parts were made by two calls of the tokenizer or processor with different max_length, padding or "
           "truncation\n"
           "Not a sequence that is too long: the larger number is the padded length, or the number of positions",
       .confirm = "print {k: v.shape for k, v in batch.items()} of the failing batch: which part differs?",
       .fix = "one call for all parts, with padding='max_length', truncation=True and the same max_length\n"
              "or padding in the collator only, for every part: labels with -100, masks and token types with 0, boxes "
              "with [0, 0, 0, 0]\n"
              "mask[:, :input_ids.shape[1]], where the longer one only has padding beyond",
       .command = "plimsoll train pads every part of a batch to one length by itself"},
      {.name = "sequence-warning",
       .level = Level::kNote,
       .when = {"token indices sequence length is longer than the specified maximum"},
       .what = "a text or page has more tokens than the model takes",
       .cause = "The tokenizer only warns; the model fails later with an index error unless the text is cut\n"
                "Harmless where the text is cut into blocks or windows afterwards",
       .confirm = "the numbers in the message",
       .fix = "truncation=True, max_length=512 (or the model's own maximum)\n"
              "stride=128, return_overflowing_tokens=True, so that nothing is lost",
       .command = "plimsoll train cuts long pages into windows with overlap"},
      {.name = "matmul-shapes",
       .when = kProducts,
       .what = "a layer was given rows of another length than it takes: its input has the wrong shape",
       .cause = "The input has another size than the layer was made for: another image or feature size, a tensor "
                "flattened or cut otherwise, columns more or fewer\n"
                "A head or projection was made for another hidden size than the encoder before it has\n"
                "A batch dimension is missing or doubled, or the input is transposed",
       .confirm = "print the input's shape before that layer: the second number of mat1 is what it was given, the "
                  "first of mat2 what it takes (in_features)",
       .fix = "make the layer for what it gets: in_features from model.config.hidden_size, or from the size after "
              "flatten (nn.LazyLinear finds it)\n"
              "give the model the shape that its forward expects (resize images; squeeze(0) what a processor returned "
              "with return_tensors='pt')\n"
              "x.flatten(1), or x.transpose(1, 2), where only the order is wrong"},
      {.name = "matmul-hidden",
       .when = kProducts,
       .holds = joins_hidden_sizes,
       .refines = {"matmul-shapes"},
       .what = "a layer was made for another hidden size than its input has",
       .cause = "Both numbers are hidden sizes of usual models (768 of base, 1,024 of large): a head, projection or "
                "adapter made for one model is used with another\n"
                "Two outputs were concatenated, or a pair of encoders do not belong together",
       .confirm = "the second number of mat1 must equal the first of mat2: which layer has that in_features?",
       .fix = "take the size from model.config.hidden_size, or load the model that the layer was made for"},
      {.name = "matmul-packed",
       .when = kProducts,
       .holds = is_fed_packed_weights,
       .refines = {"matmul-shapes", "matmul-hidden", "matmul-input"},
       .what = "weights that are packed in 4 bits were used as if they were plain ones",
       .cause =
           "bitsandbytes keeps a layer's weights as one column of bytes, and code past its own layer uses that "
           "column: Llama's path for config.pretraining_tp above 1, F.linear(x, layer.weight), a patched attention\n"
           "DataParallel copies the model to several GPUs, and the copies lose the quantised layers' state\n"
           "A head or adapter of one's own reads .weight of a quantised layer",
       .confirm =
           "model.config.pretraining_tp; torch.cuda.device_count() under the Trainer; the line that the traceback "
           "names last",
       .fix = "model.config.pretraining_tp = 1\n"
              "CUDA_VISIBLE_DEVICES=0, or torchrun with device_map={'': local_rank}\n"
              "call the layer itself in place of its weight; llm_int8_skip_modules for layers that shall stay plain\n"
              "pip install -U transformers peft bitsandbytes",
       .command = "plimsoll train --load-in-4bit needs no package"},
      {.name = "matmul-input",
       .when = kProducts,
       .holds = is_fed_a_few_more,
       .refines = {"matmul-shapes", "matmul-hidden"},
       .what = "the input given to the model has the wrong shape: its rows are a few numbers too long or too short",
       .cause = "A dimension too many or too few, so that a part of the input was cut off along the wrong axis: a "
                "processor called with return_tensors='pt' returns a batch of one, and the loader stacks it again\n"
                "Columns or features were added or left out (Pix2Struct's two numbers of row and column before each "
                "patch, a coordinate, a flag)",
       .confirm =
           "print {k: v.shape for k, v in batch.items()}: a dimension of size 1 after the first is the extra one",
       .fix = "{k: v.squeeze(0) for k, v in encoding.items()} in the data set\n"
              "make the features as the model's own processor does"},
      {.name = "bce-shapes",
       .when = {"target size*must be the same as input size",
                "target size (torch.size([1])) that is different to the input size (torch.size([]))",
                "target size (torch.size([])) that is different to the input size (torch.size([1]))"},
       .refines = {"loss-shapes"},
       .what = "the labels have another shape than the logits, which this loss compares one by one",
       .cause =
           "Logits are (batch, 1) and labels (batch): a dimension is missing\n"
           "Labels are class numbers, and this loss wants a 0 or 1 for every class (problem_type "
           "multi_label_classification)\n"
           "num_labels is not the number of columns in the labels, or a mask has another size or number of "
           "channels than the output\n"
           "squeeze() without a dimension also takes the batch's away where a batch, the last one as a rule, holds "
           "one sample",
       .confirm = "logits.shape and labels.shape just before the loss",
       .fix = "labels.unsqueeze(1).float(), or logits.squeeze(1)\n"
              "one-hot labels (F.one_hot(labels, num_labels).float()), or CrossEntropyLoss for class numbers\n"
              "num_labels equal to the labels' columns; masks of the output's size\n"
              "squeeze(-1) or view(-1) in place of squeeze(); drop_last=True in the data loader",
       .tellings = {{.when = {"size (torch.size([1])) must be the same as input size (torch.size([]))",
                              "size (torch.size([])) must be the same as input size (torch.size([1]))",
                              "that is different to the input size"},
                     .what = "a batch of one sample was squeezed to a single number, and the loss wants one shape for "
                             "logits and labels",
                     .cause = "squeeze() without a dimension",
                     .fix = "squeeze(-1) or view(-1)"}}},
      {.name = "negative-strides",
       .when = {"strides of a given numpy array are negative", "tensors with negative strides are not"},
       .refines = {"worker-exception"},
       .what = "a NumPy array that was flipped cannot become a tensor as it lies",
       .cause = "[::-1], numpy.flip or fliplr in an augmentation returns a view that is read backwards",
       .confirm = "array.strides of the sample that fails",
       .fix = "array.copy() or numpy.ascontiguousarray(array) after the flip"},
      {.name = "report-classes",
       .when = {"number of classes*does not match size of target_names"},
       .what = "classification_report was given more names than classes occur",
       .cause = "Some classes are in neither the labels nor the predictions of this (small) evaluation set, so the "
                "names do not fit them\n"
                "A class that has no name occurs: -100 or padding among the labels, a label list that is too short",
       .confirm = "sorted(set(y_true) | set(y_pred)) against target_names",
       .fix =
           "classification_report(..., labels=range(len(target_names)), target_names=target_names, zero_division=0)"},
      {.name = "loss-shapes",
       .when = {"expected input batch_size*to match target batch_size",
                "using a target size*that is different to the input size", "multi-target not supported",
                "expected target size", "inconsistent tensor size, expected tensor"},
       .what = "logits and labels have different shapes",
       .cause = "A dimension more or less: (batch, 1) against (batch), or labels that are one-hot rows where class "
                "numbers (N) are taken\n"
                "Labels were padded, cut or aligned otherwise than input_ids (per word instead of per token), or the "
                "logits include tokens of a prompt or an image\n"
                "The model is for another task than the labels: one class for a whole text against one for each token, "
                "another number of classes in view(-1, num_labels)\n"
                "Flattening or pooling inside the model mixes batch and features (view with a wrong size, a missing "
                "batch dimension)",
       .confirm =
           "logits.shape and labels.shape just before the loss; what CrossEntropyLoss takes is (N, classes) and (N)",
       .fix = "labels.squeeze(-1), logits.squeeze(-1), or labels.argmax(-1) for one-hot rows\n"
              "tokenize and label with the same padding and truncation, and pad labels with -100 to the length of "
              "input_ids\n"
              "the class for the task: …ForSequenceClassification or …ForTokenClassification\n"
              "x.flatten(1) instead of x.view(-1, size) before the last layer",
       .command = "plimsoll train aligns labels with tokens by itself"},
      {.name = "view-size",
       .when = {"is invalid for input of size", "view size is not compatible with input tensor's size"},
       .refines = {"broadcast"},
       .what = "a tensor cannot be viewed in that shape",
       .cause = "The sizes in the message do not multiply to the number of elements: batch, heads, length, image or "
                "hidden size are not what the code assumes\n"
                "The last batch of an epoch is smaller than a constant in the code says\n"
                "The tensor was transposed before, and .view needs it contiguous: the message then names .reshape",
       .confirm = "print the tensor's shape just before that line, and the sizes that the code passes",
       .fix = "take sizes from the tensor (x.shape[0], -1) instead of constants\n"
              "drop_last=True, where the batch size is written into the code\n"
              ".reshape or .contiguous().view instead of .view\n"
              "inputs of the size that the model was written for (resize, truncation)",
       .command = "plimsoll train makes the batch by itself"},
      {.name = "broadcast",
       .when = {"expected 3d (unbatched) or 4d", "too many indices for tensor",
                "size of tensor a*must match the size of tensor b", "must match the existing size",
                "the shape of the mask*does not match", "is invalid for input of size",
                "operands could not be broadcast together", "shape mismatch: indexing tensors",
                "sizes of tensors must match except in dimension", "attention mask should be of size",
                "doesn't match the broadcast shape"},
       .what = "two tensors' shapes do not fit one another",
       .cause =
           "The two sizes in the message come from inputs that were made, padded or cut differently: one of the "
           "batch's parts (attention_mask, labels, boxes, a target) has another length than the rest\n"
           "An image, feature map or sequence has another size than the model's: odd sizes that do not halve evenly, "
           "another resolution, more tokens than positions\n"
           "Two modules of the model do not belong together: the output of one is not the size that the next expects\n"
           "A dimension is missing or in another order (squeeze, transpose, channels last)",
       .confirm = "print {k: v.shape for k, v in batch.items()}, and both shapes in the line that failed",
       .fix = "pad and truncate every part to the same length\n"
              "resize or pad images to the model's size (config.image_size, a multiple of 32)\n"
              "make the modules' sizes equal; interpolate one of two feature maps to the other's size\n"
              "unsqueeze or permute, so that the shapes agree",
       .command = "plimsoll check --model DIR --data pages.jsonl"},

      {.name = "column-lengths",
       .when = {"arrowinvalid: column*expected length*but got length"},
       .what = "map(batched=True) returned columns of different lengths",
       .cause = "The function makes more or fewer rows than it got (windows of long texts, packing, leaving out "
                "samples), and the old columns stay as long as they were\n"
                "The function was written for one sample, and batched=True gives it lists",
       .confirm = "len() of every value that the function returns",
       .fix = "remove_columns=dataset.column_names\n"
              "repeat labels and images by overflow_to_sample_mapping\n"
              "batched=False; or return a list with one entry for each row in every column",
       .command = "plimsoll train cuts long pages into windows by itself"},
      {.name = "batch-norm-one",
       .when = {"expected more than 1 value per channel when training"},
       .what = "batch normalisation got a single value to normalise over",
       .cause = "The last batch of an epoch holds one sample\n"
                "The batch size (of each GPU) is 1, and the layer stands after a global pooling",
       .confirm = "len(dataset) % batch_size == 1",
       .fix = "drop_last=True (dataloader_drop_last)\n"
              "a larger batch size, or one that leaves no single sample\n"
              "the layer in eval() while it is not trained; GroupNorm or LayerNorm instead"},
      {.name = "metric-format",
       .when = {"predictions and/or references don't match the expected format"},
       .what = "the metric got predictions or references of another type than it takes",
       .cause = "Ids where names are expected, or names where ids are (seqeval takes lists of label names)\n"
                "-100 left in, logits in place of classes, or arrays nested otherwise; training is not at fault",
       .confirm = "\"Expected format\" in the message against \"Input predictions\" and \"Input references\"",
       .fix = "in compute_metrics: argmax, leave out positions whose label is -100, map both through id2label",
       .command = "plimsoll eval reports precision, recall and F1 by itself"},
      {.name = "metric-labels",
       .when = {"indexerror: list index out of range"},
       .with = {{"label_list[", "label_names[", "labels_list[", "id2label["}, {"compute_metrics"}},
       .what = "a predicted or given label's number has no name in the list",
       .cause =
           "The list of names is shorter than the model's num_labels: made from another split, or without one label",
       .confirm = "len(label_list) against model.config.num_labels",
       .fix = "use model.config.id2label, made once from all parts of the data, for the model and the metric alike",
       .command = "plimsoll eval takes the names from the model"},
      {.name = "metric-average",
       .when = {"target is multiclass but average='binary'", "target is multiclass but average=\"binary\""},
       .what = "a metric for two classes was given more than two",
       .cause = "scikit-learn's precision, recall and F1 average over two classes unless told otherwise",
       .confirm = "len(set(labels)) > 2",
       .fix = "average='macro', 'micro' or 'weighted'"},
      {.name = "metric-empty",
       .when = {"zerodivisionerror: "},
       .with = {{"in compute_metrics", "compute_metrics(", "metric.compute(", "evaluate_modules", "evaluate/module.py",
                 "evaluate\\module.py", "in compute_bleu", "datasets/metric.py", "rouge", "sacrebleu", "jiwer",
                 "in compute_wer", "in corpus_bleu", "in sentence_bleu"}},
       .what = "a metric divides by zero: it has nothing to count",
       .cause = "The predictions are empty texts: the model generates only padding or the end token (untrained, NaN "
                "weights, mT5 or T5 in fp16, generation's maximum length too small), or decoding drops all of it\n"
                "The references are empty: labels not decoded, all -100 or cut away\n"
                "No sample reached the metric: an empty evaluation set, or a filter",
       .confirm = "at the start of compute_metrics print(len(decoded_preds), decoded_preds[:3], decoded_labels[:3])",
       .fix =
           "return 0 for the metric where all predictions are empty, so that training goes on; a metric that takes "
           "empty texts (sacrebleu for bleu)\n"
           "before decoding np.where(ids != -100, ids, tokenizer.pad_token_id), of predictions and labels alike\n"
           "if predictions stay empty: bf16 or F32 instead of fp16, another learning rate, predict_with_generate=True "
           "with generation_max_length set",
       .command = "plimsoll eval reports precision, recall and F1 by itself"},
      {.name = "metric-shapes",
       .when = {"found input variables with inconsistent numbers of samples",
                "classification metrics can't handle a mix of"},
       .what = "predictions and labels given to a metric do not have the same form",
       .cause = "Predictions and labels have different lengths: -100 left out of one only, a last batch dropped, "
                "sequences cut otherwise\n"
                "Logits where classes are expected, or lists per text against flat lists\n"
                "Labels are one-hot rows or of another type (text, floats) than the predictions",
       .confirm = "np.shape of both, and the first few values",
       .fix = "argmax over the last axis\n"
              "one mask (labels != -100) for both, both flat\n"
              "both as class numbers of one type",
       .command = "plimsoll eval reports precision, recall and F1 by itself"},
  };
}

}  // namespace plimsoll::doctor
