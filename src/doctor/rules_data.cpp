// Batches, labels, pages: what goes into the model.
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

// The rows are a few numbers too long or too short: no layer was made for that size.
bool is_fed_a_few_more(const OomNumbers&, const LogFacts& f) {
  return f.fed && f.wanted && *f.wanted >= 64 && *f.fed != *f.wanted && std::abs(*f.fed - *f.wanted) <= 16;
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

std::vector<Rule> data_rules() {
  return {
      {.name = "sequence-too-long",
       .when = {"size of tensor a (512)*must match", "size of tensor a (709)*must match",
                "size of tensor a (514)*must match", "size of tensor a*must match the size of tensor b (512)",
                "size of tensor a*must match the size of tensor b (514)",
                "size of tensor a*must match the size of tensor b (709)",
                "size of tensor a*must match the size of tensor b (511)", "must match the existing size (512)",
                "expanded size of the tensor*must match the existing size (514)",
                "shape*is invalid for input of size*512"},
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
       .when = {"target size*must be the same as input size"},
       .refines = {"loss-shapes"},
       .what = "the labels have another shape than the logits, which this loss compares one by one",
       .cause = "Logits are (batch, 1) and labels (batch): a dimension is missing\n"
                "Labels are class numbers, and this loss wants a 0 or 1 for every class (problem_type "
                "multi_label_classification)\n"
                "num_labels is not the number of columns in the labels, or a mask has another size or number of "
                "channels than the output",
       .confirm = "logits.shape and labels.shape just before the loss",
       .fix = "labels.unsqueeze(1).float(), or logits.squeeze(1)\n"
              "one-hot labels (F.one_hot(labels, num_labels).float()), or CrossEntropyLoss for class numbers\n"
              "num_labels equal to the labels' columns; masks of the output's size"},
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
                "sizes of tensors must match except in dimension", "attention mask should be of size"},
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
      {.name = "unknown-split",
       .when = {"valueerror: unknown split", "valueerror: bad split: "},
       .refines = {"column-missing"},
       .what = "the data set has no part of that name",
       .cause = "Many data sets have train and test only, and some call the parts otherwise (dev, val, eval)\n"
                "A directory or data_files without names of parts makes one part, train; a saved part loaded with "
                "load_from_disk has none",
       .confirm = "print(load_dataset(NAME)) lists the parts",
       .fix = "the name that is there, or dataset['train'].train_test_split(0.1)\n"
              "load_dataset(…, data_files={'train': …, 'validation': …})"},
      {.name = "split-missing",
       .when = {"keyerror: 'validation'", "keyerror: 'train'", "keyerror: 'test'", "keyerror: 'valid'",
                "keyerror: 'dev'", "keyerror: 'val'", "keyerror: 'eval'"},
       .with = {{"dataset_dict.py", "datasets[", "dataset[", "ds[", "load_dataset", "load_from_disk"}},
       .refines = {"column-missing", "worker-exception"},
       .what = "the data set has no part of that name",
       .cause = "Many data sets have train and test only, and some call the parts otherwise (dev, val, eval)\n"
                "data_files or a directory without names of parts makes one part, train; load_dataset(…, split=…) and "
                "many saved sets have no parts at all",
       .confirm = "print(dataset) lists the parts",
       .fix = "the name that is there\n"
              "dataset = dataset['train'].train_test_split(0.1), whose parts are train and test\n"
              "load_dataset(…, data_files={'train': …, 'validation': …}); leave split= out"},
      {.name = "not-text",
       .when = {"unicodedecodeerror: 'utf-8' codec can't decode", "unicodedecodeerror: 'charmap' codec can't decode"},
       .refines = {"worker-exception"},
       .what = "a file that is read as text is not text, or not in that encoding",
       .cause =
           "An image, an archive or a file of macOS (._name) among the data; a file in another encoding; on Windows "
           "open() without encoding='utf-8'",
       .confirm = "`file` on the file that was being read",
       .fix = "leave out what is no text; open(…, encoding='utf-8'); convert with iconv",
       .command = "plimsoll check --data pages.jsonl names file and line"},
      {.name = "data-splits",
       .when = {"nonmatchingsplitssizeserror", "nonmatchingchecksumerror", "expectedmoresplits",
                "expectedmoresplitserror"},
       .what = "a data set is not of the size or content that its description says",
       .cause = "A download cut short, a stale cache, or a source that has changed since",
       .confirm = "the sizes in the message: less than expected is a broken download",
       .fix = "load_dataset(…, download_mode='force_redownload')\n"
              "verification_mode='no_checks' where the source changed\n"
              "pip install -U datasets; delete the data set's cache"},
      {.name = "no-padding-token",
       .when = {"tokenizer does not have a padding token", "cannot handle batch sizes > 1 if no padding token"},
       .refines = {"worker-exception"},
       .what = "the tokenizer has no padding token",
       .cause = "It was trained for generation, or its special tokens were not saved with it",
       .confirm = "tokenizer.pad_token is None",
       .fix =
           "tokenizer.pad_token = tokenizer.eos_token, and model.config.pad_token_id = tokenizer.pad_token_id\n"
           "or tokenizer.add_special_tokens({'pad_token': '[PAD]'}) and model.resize_token_embeddings(len(tokenizer))",
       .command = "plimsoll train packs pages without padding"},
      {.name = "chat-template",
       .when = {"cannot use chat template functions because tokenizer.chat_template is not set",
                "cannot use apply_chat_template() because", "tokenizer.chat_template is not set and no template"},
       .what = "the tokenizer has no chat template",
       .cause =
           "A base model (or an older directory) was loaded where conversations are formatted; templates come with "
           "chat and instruct models, in tokenizer_config.json or chat_template.jinja",
       .confirm = "tokenizer.chat_template is None",
       .fix = "the model's instruct version, or its tokenizer\n"
              "tokenizer.chat_template = '…', or load it from chat_template.jinja; trl: clone_chat_template, "
              "setup_chat_format\n"
              "pip install -U transformers, if the directory has chat_template.jinja"},
      {.name = "chat-roles",
       .when = {"conversation roles must alternate", "system role not supported",
                "after the optional system message, conversation roles must",
                "only user and assistant roles are supported"},
       .refines = {"worker-exception", "dataset-failed"},
       .what = "a conversation does not have the form that the model's chat template takes",
       .cause =
           "Two messages of one role follow one another, or the first is not the user's\n"
           "The template has no system role (Gemma, early Mistral)\n"
           "The roles have other names (human, gpt, from and value instead of role and content), or messages are empty",
       .confirm = "[m['role'] for m in messages] of the failing sample",
       .fix = "join messages of one role; leave out samples that do not begin with the user\n"
              "put the system's text before the first message of the user\n"
              "map names to role (user, assistant) and content before apply_chat_template"},
      {.name = "collate",
       .when = {"stack expects each tensor to be equal size", "unable to create tensor, you should probably activate",
                "expected sequence of length*at dim", "element in list of batch should be of equal size",
                "only one element tensors can be converted", "each element in list of batch", "inhomogeneous shape",
                "excessive nesting", "resize storage that is not resizable"},
       .refines = {"worker-exception"},
       .what = "samples of different lengths cannot be put into one batch",
       .cause = "Texts were tokenized without padding and truncation, or the collator does not pad one of the fields "
                "(labels, boxes, a field of your own)\n"
                "Images, sounds or arrays of different sizes or channels were not brought to one size\n"
                "A field is nested unevenly, or holds None or text in some samples\n"
                "A label is a list in some samples and a number in others",
       .confirm = "print the length of every field of the samples of that batch",
       .fix = "padding='max_length' (or True), truncation=True where the batch is tokenized\n"
              "the collator of the task: DataCollatorWithPadding, …ForTokenClassification, …ForSeq2Seq; pad further "
              "fields in a collate_fn of your own\n"
              "transforms.Resize((H, W)) and convert('RGB') for images; pad_sequence for sequences and sounds\n"
              "remove_columns for text and fields that the model does not take",
       .command = "plimsoll train packs pages of any length without padding"},
      {.name = "collate-type",
       .when = {"default_collate: batch must contain tensors", "too many dimensions 'str'",
                "new(): invalid data type 'str'"},
       .refines = {"collate", "worker-exception"},
       .what = "a field of the samples holds something that cannot become a tensor",
       .cause =
           "Text or a list of words was left in the batch: raw columns beside the tokenized ones, labels as names\n"
           "An image is still a PIL image, for ToTensor() is missing in the transforms\n"
           "A field is None in some samples, or an object such as a path or a dictionary of one's own",
       .confirm = "{k: type(v) for k, v in dataset[0].items()}; the type in the message",
       .fix = "remove_columns=[…] with the text columns, or remove_unused_columns=True; label2id for labels\n"
              "transforms.ToTensor() at the end of the transforms\n"
              "a value for every sample, or a collate_fn that leaves the field as a list"},
      {.name = "collate-keys",
       .when = {"keyerror: "},
       .with = {{"in default_collate", "in collate", "collate.py"}},
       .refines = {"worker-exception"},
       .what = "samples of one batch do not hold the same fields",
       .cause = "default_collate takes the first sample's fields and looks each up in all others: one lacks the field "
                "that the message names",
       .confirm = "the set of keys of every sample: {tuple(sorted(s)) for s in dataset}",
       .fix = "give every sample the same fields (a default where there is nothing), or a collate_fn of your own"},
      {.name = "list-not-tensor",
       .when = {"'list' object has no attribute 'shape'", "'list' object has no attribute 'to'",
                "'list' object has no attribute 'size'", "'list' object has no attribute 'dim'",
                "'list' object has no attribute 'unsqueeze'", "'list' object has no attribute 'squeeze'",
                "'list' object has no attribute 'device'", "'list' object has no attribute 'dtype'",
                "'list' object has no attribute 'float'", "'list' object has no attribute 'cuda'"},
       .what = "a list is where a tensor is expected",
       .cause = "A data set of Hugging Face's gives what it stores as lists, tensors too, unless its format is set\n"
                "A processor or tokenizer was called without return_tensors=\"pt\", or its collator is missing",
       .confirm = "type(sample[NAME]) just before that line",
       .fix = "dataset.set_format(\"torch\"), or torch.tensor(sample[NAME])\n"
              "return_tensors=\"pt\" in the tokenizer or processor, or its collator in the DataLoader\n"
              "torch.stack for a list of tensors"},
      {.name = "not-one-element",
       .when = {"elements cannot be converted to scalar", "elements cannot be converted to python scalar",
                "only one element tensors can be converted to python scalars"},
       .with = {{".item(", "float(", "int(", "math.", "format("}},
       .refines = {"collate", "metric-logits"},
       .what = "one number was asked for from a tensor that holds several",
       .cause =
           ".item(), float() or int() of what was expected to be one value: a loss without reduction, or one value for "
           "each sample of the batch",
       .confirm = "print the tensor's shape just before that line",
       .fix = ".mean().item() for one number of the batch; .tolist() for all of them"},
      {.name = "ocr-and-boxes",
       .when = {"cannot provide bounding boxes if you initialized", "cannot provide word labels if you initialized",
                "you initialized the image processor with apply_ocr",
                "initialized the feature extractor with apply_ocr", "apply_ocr set to true"},
       .refines = {"words-and-boxes"},
       .what = "the processor does its own OCR, and was also given boxes or labels",
       .cause = "apply_ocr is True unless told: then words and boxes come from Tesseract, and yours have no place",
       .confirm = "processor.image_processor.apply_ocr",
       .fix = "LayoutLMv3Processor.from_pretrained(…, apply_ocr=False)",
       .command = "plimsoll always takes your words and boxes"},
      {.name = "words-and-boxes",
       .when = {"provide corresponding bounding boxes", "as many words as there are bounding boxes",
                "as many sequences of words as", "words*and*boxes*same length",
                "must have the same number of words and boxes", "mismatch between the number of words and",
                "number of words*does not match*number of bo"},
       .refines = {"worker-exception"},
       .what = "words and boxes do not belong together",
       .cause = "A page has more words than boxes (or no boxes), or a batch is nested one list too deep",
       .confirm = "for each page len(words) == len(boxes) == len(labels)",
       .fix = "leave out or repair such pages; pass lists of words, and lists of lists for batches",
       .command = "plimsoll check --data pages.jsonl names file, page and word"},
      {.name = "layout-words",
       .when = {"words must be of type", "pretokenizedencodeinput must be", "pretokenizedinputsequence must be",
                "text must be of type `list[str]`"},
       .refines = {"worker-exception", "tokenizer-input", "words-and-boxes"},
       .what = "the tokenizer was given plain text where it takes a list of words",
       .cause =
           "A tokenizer of LayoutLM's family (LayoutLMv2, LayoutLMv3, LayoutXLM, UDOP) takes a list of words with a "
           "box for each, and a script or tool for plain text (chat, fine-tuning of language models) passed it a "
           "string\n"
           "A word in the list is no str (None, a number), or a batch is nested one list too deep\n"
           "Another tokenizer, with is_split_into_words=True, was given a string",
       .confirm = "type(text) and type(text[0]) of what the tokenizer is given",
       .fix = "tokenizer(words, boxes=boxes) with words as a list of str and one box a word\n"
              "the tokenizer of a text model (or tokenizer.tokenizer of the processor) where there is no layout",
       .command = "plimsoll check --data pages.jsonl names file, page and word"},
      {.name = "tokenizer-input",
       .when = {"textencodeinput must be", "textinputsequence must be", "text input must be of type `str`",
                "text input must be of type str", "input is not valid. should be a string",
                "inputs must be of type `str`", "input must be of type `str`"},
       .refines = {"worker-exception", "words-and-boxes"},
       .what = "the tokenizer was given something that is not text",
       .cause = "A sample holds None, NaN (an empty cell of a table) or a number instead of a str\n"
                "A list is nested one level too deep, or words were passed without is_split_into_words=True\n"
                "A tensor, dictionary or whole column was passed instead of its text",
       .confirm = "{type(text) for text in texts}: anything but str, or lists of str",
       .fix = "dataset.filter(lambda x: isinstance(x['text'], str)), df.dropna(subset=['text']) or str(text)\n"
              "is_split_into_words=True for lists of words; list(column) for a column",
       .command = "plimsoll check --data pages.jsonl names file, page and word"},
      {.name = "visual-tokens",
       .when = {"[512]*[561", "[561*[512", "(512)*(561)", "(561)*(512)", "[512]*[709", "[709*[512", "(512)*(709)",
                "(709)*(512)"},
       .refines = {"broadcast", "sequence-too-long", "loss-shapes"},
       .what = "hidden states of text and image tokens meet a mask or labels of the text tokens only",
       .cause = "LayoutLMv2 and LayoutXLM append 7 x 7 = 49 image tokens to the text (512 + 49 = 561), LayoutLMv3 197 "
                "(512 + 197 = 709): attention_mask, labels and word positions are for the first 512 only",
       .confirm = "outputs.last_hidden_state.shape[1] - input_ids.shape[1]: 49 or 197",
       .fix = "outputs.last_hidden_state[:, :input_ids.shape[1]] before it is masked, pooled by word or classified",
       .command = "plimsoll predict and eval look at the text's tokens only"},
      {.name = "metric-logits",
       .when = {"only size-1 arrays can be converted", "only length-1 arrays can be converted",
                "only 0-dimensional arrays can be converted", "mix of*and continuous", "mix of continuous",
                "only one element tensors can be converted", "only integer scalar arrays can be converted",
                "multiclass-multioutput is not supported", "continuous-multioutput is not supported",
                "continuous is not supported"},
       .with = {{"compute_metrics", "metric.compute(", "in add_batch", "datasets/metric.py", "evaluate/module.py",
                 "sklearn/metrics", "accuracy_score(", "f1_score(", ".add_batch(", "classification_report("}},
       .refines = {"metric-shapes", "collate", "metric-format"},
       .what = "the metric was given scores (logits) where it takes classes",
       .cause = "compute_metrics passes on the model's logits, a row of scores for each sample: argmax over the last "
                "axis is missing\n"
                "Labels are one-hot rows or scores themselves",
       .confirm = "np.shape(predictions) against np.shape(labels): one axis more, and numbers that are not whole",
       .fix = "predictions = np.argmax(logits, axis=-1) before metric.compute; where logits is a tuple, of logits[0]",
       .command = "plimsoll eval reports precision, recall and F1 by itself"},
      {.name = "pretokenized",
       .when = {"add_prefix_space=true to use it with pretokenized inputs", "add_prefix_space=true*pretokenized"},
       .refines = {"words-and-boxes", "tokenizer-input"},
       .what = "a byte-level tokenizer was given words without add_prefix_space",
       .cause = "A byte-level tokenizer (RoBERTa's, GPT-2's, Longformer's, DeBERTa's) takes words with "
                "is_split_into_words=True only if it was loaded with add_prefix_space\n"
                "It was loaded in place of the model's own (LayoutLMv3's)",
       .confirm = "type(tokenizer)",
       .fix = "AutoTokenizer.from_pretrained(NAME, add_prefix_space=True)\n"
              "for LayoutLMv3 its own: LayoutLMv3TokenizerFast or AutoProcessor",
       .command = "plimsoll train reads tokenizer.json as LayoutLMv3 does"},
      {.name = "box-shape",
       .when = {"each bounding box should contain 4 values", "features (`bbox` in this case)", "bbox must have*4",
                "boxes must have 4", "box must have 4"},
       .refines = {"collate", "words-and-boxes", "worker-exception"},
       .what = "a box does not have four numbers, or boxes are nested too deep or of different counts",
       .cause = "Boxes with two corners' worth missing, polygons of eight numbers, None, or boxes that were not padded "
                "with the words",
       .confirm = "all(len(box) == 4 for page in boxes for box in page)",
       .fix = "[left, top, right, bottom] as whole numbers for every word; padding='max_length', truncation=True in "
              "the processor",
       .command = "plimsoll check --data pages.jsonl names file, page and word"},
      {.name = "bad-image",
       .when = {"image file is truncated", "cannot identify image file", "unidentifiedimageerror", "broken png",
                "decompressionbomb", "broken data stream when reading image", "bytes not processed",
                "syntaxerror: not a png file", "imread_*can't open/read file", "truncated file read", "libpng error"},
       .refines = {"worker-exception"},
       .what = "an image cannot be decoded",
       .cause =
           "A download or copy cut short, or an empty file\n"
           "A file that is no image: a web page, a text, a file of macOS (._name), another format under that name\n"
           "A format that the library does not read (HEIC, WebP, 16 bits), or an image larger than its limit",
       .confirm = "`file` on the images; PIL.Image.open(path).load() over all of them",
       .fix = "replace or leave out that image: try Image.open(path).load() over all of them once\n"
              "ImageFile.LOAD_TRUNCATED_IMAGES = True, to use what is there of cut ones\n"
              "convert it (pillow-heif for HEIC); Image.MAX_IMAGE_PIXELS = None for huge scans",
       .command = "plimsoll check --data pages.jsonl --decode-images decodes every image and names the bad ones"},
      {.name = "image-channels",
       .when = {"unable to infer channel dimension format", "to have 3 channels, but got",
                "unsupported number of image dimensions", "mean must have*elements", "pil image mode",
                "channel dimension*num_channels", "make sure that the channel dimension of the pixel values match"},
       .refines = {"worker-exception", "broadcast"},
       .what = "an image does not have three colour channels",
       .cause =
           "Grey scans, palettes or images with transparency reach the model as they are\n"
           "The array's axes are in another order than is expected (height x width x 3 against 3 x height x width)\n"
           "The model or processor was made for another number of channels",
       .confirm = "Image.open(path).mode: anything but RGB",
       .fix =
           "Image.open(path).convert('RGB')\n"
           "np.stack([x] * 3, -1) for grey arrays; input_data_format='channels_last' where the processor cannot tell\n"
           "transforms.Grayscale(num_output_channels=3), or the model's num_channels",
       .command = "plimsoll converts them by itself"},
      {.name = "image-tokens",
       .when = {"image features and image tokens do not match", "number of image tokens is*while the number of image",
                "mismatch in `image` token count", "number of images in the text and images should be the same"},
       .refines = {"worker-exception"},
       .what = "the text's image tokens and the images do not belong together",
       .cause = "Truncation has cut image tokens off: an image takes hundreds to thousands of them, and max_length is "
                "smaller\n"
                "The prompt has no placeholder for the image, or more than there are images: no chat template, or text "
                "without {'type': 'image'}\n"
                "Processor and model are of different versions or settings (patch_size, number of image tokens, size "
                "of images)",
       .confirm = "(input_ids == model.config.image_token_id).sum() of the failing sample, and input_ids.shape[1] "
                  "against max_length",
       .fix =
           "no truncation, or a larger max_length (max_length=None in trl's SFTConfig); smaller images (max_pixels)\n"
           "processor.apply_chat_template with an image entry for each image\n"
           "the processor of the same checkpoint as the model; pip install -U transformers"},
      {.name = "image-size",
       .when = {"input image size*doesn't match model", "pixel_values*expected*224",
                "input height*doesn't match model"},
       .refines = {"broadcast"},
       .what = "an image has another size than the model takes",
       .cause = "The images do not pass the model's own processor, or do_resize is off\n"
                "The processor belongs to another model or resolution than the config's image_size",
       .confirm = "pixel_values.shape against model.config.image_size",
       .fix = "use the model's own image processor, or Resize to config.image_size\n"
              "interpolate_pos_encoding=True in forward, for models that have it",
       .command = "plimsoll train reads preprocessor_config.json, and refuses one that does not fit the model"},
      {.name = "unused-columns",
       .when = {"no columns in the dataset match the model's forward method signature",
                "invalid key*is out of bounds for size 0", "is out of bounds for size 0"},
       .refines = {"worker-exception"},
       .what = "the Trainer has dropped every column of the data set",
       .cause = "Columns that forward() does not name are removed by the Trainer; with a transform, a wrapped model "
                "(peft) or a collator that works on raw columns that is all of them\n"
                "The data set is empty: a wrong path or split, or a filter that leaves nothing",
       .confirm = "len(dataset), and print(dataset.column_names) against the names in forward()",
       .fix = "remove_unused_columns=False\n"
              "rename the columns to forward's names (input_ids, attention_mask, labels, pixel_values)\n"
              "tokenize before training, and pass what map() returns; correct the filter or split"},
      {.name = "unexpected-input",
       .when = {"forward() got an unexpected keyword argument", "got multiple values for argument 'input_ids'",
                "got multiple values for keyword argument 'input_ids'",
                "forward() missing*required positional argument", "you have to specify either input_ids",
                "you have to specify pixel_values", "you have to specify bbox", "keyerror: 'bbox'",
                "keyerror: 'pixel_values'", "keyerror: 'input_ids'",
                "you cannot specify both input_ids and inputs_embeds"},
       .refines = {"worker-exception"},
       .what = "the batch's fields are not those that the model takes",
       .cause =
           "A field of the batch is not one that this model's forward takes: token_type_ids, image for pixel_values, "
           "raw columns kept by remove_unused_columns=False, another model's processor\n"
           "A field is missing: a collator dropped or renamed it, the data set was not tokenized, a column was not "
           "kept\n"
           "The model is of another class than the data are for: a text model gets images, a bare model gets labels\n"
           "A forward of one's own (or of a wrapper) lacks the argument",
       .confirm = "type(model), and print(batch.keys()) against inspect.signature(model.forward)",
       .fix = "drop or rename the field in the collator or data set (return_token_type_ids=False); the model's own "
              "processor and collator\n"
              "keep what forward needs: input_ids, attention_mask, labels, pixel_values, bbox\n"
              "the class of the task (…ForTokenClassification, …ForConditionalGeneration)\n"
              "forward(self, …, **kwargs) in a module of your own",
       .command = "plimsoll train makes the batch by itself"},
      {.name = "empty-batch",
       .when = {"the batch received was empty, your model won't be able to train on it"},
       .refines = {"worker-exception"},
       .what = "the collator's batch holds no field that the model takes",
       .cause =
           "The trainer removed all columns that forward() does not name, before a collator of your own could make "
           "inputs of them\n"
           "The collator or the data set names its fields otherwise than forward()",
       .confirm = "print(data_collator([train_dataset[0]]).keys()) against inspect.signature(model.forward)",
       .fix = "remove_unused_columns=False in TrainingArguments\n"
              "name the fields input_ids, attention_mask, labels and so on",
       .command = "plimsoll train makes the batch by itself"},
      {.name = "no-loss",
       .when = {"did not return a loss from the inputs", "keyerror: 'loss'",
                "'nonetype' object has no attribute 'backward'"},
       .what = "the model returned no loss",
       .cause = "The batch has no labels, or under a name that the model does not know (label, ner_tags)\n"
                "The model has no head for the task, or its own forward returns no loss\n"
                "The loss function or compute_loss has no return",
       .confirm = "print(batch.keys()); print(type(model), model(**batch).keys())",
       .fix = "name them labels, keep the column; label_names=['labels'] in TrainingArguments\n"
              "a …For… class (ForTokenClassification, ForSequenceClassification) rather than the bare model\n"
              "return {'loss': loss, 'logits': logits} (or the loss first) from a forward of your own; for language "
              "models DataCollatorForLanguageModeling(mlm=False)",
       .command = "plimsoll check --data pages.jsonl says which pages have no labels"},
      {.name = "empty-list",
       .when = {"expected a non-empty list of tensors", "expects a non-empty tensorlist",
                "need at least one array to concatenate", "need at least one array to stack",
                "max() arg is an empty sequence", "min() arg is an empty sequence", "max() iterable argument is empty",
                "min() iterable argument is empty", "zero-size array to reduction operation",
                "found array with 0 sample"},
       .refines = {"worker-exception"},
       .what = "a list or array that is joined, stacked or reduced is empty",
       .cause = "The loader gave no batch: an empty data set or split, drop_last with fewer samples than a batch, a "
                "wrong path\n"
                "Everything was filtered out: labels that are all -100, boxes below a threshold, texts without words\n"
                "Outputs were collected under another name, cleared before, or in a hook that never ran",
       .confirm = "print len() of that list, and of the data set and loader before it",
       .fix = "correct the path, split or filter; drop_last=False\n"
              "leave out samples without content, or return early (if not items: …)\n"
              "collect the outputs in the step that runs (Lightning 2: self.outputs in validation_step)"},
      {.name = "empty-data",
       .when = {"num_samples should be a positive integer value, but got num_samples=0", "num_samples=0",
                "a data file has no pages", "train_dataloader*has length 0", "with size 0 and no elements"},
       .refines = {"plimsoll-error"},
       .what = "the data set is empty",
       .cause = "A wrong path, pattern or split: nothing was found\n"
                "A filter, a limit on lengths or a sampling that leaves nothing\n"
                "The reader skipped every file or row: other extensions, columns or folders than it expects",
       .confirm = "len(dataset) before and after each step",
       .fix = "print len() after each step, and correct the path, pattern or filter\n"
              "the folders and extensions that the reader documents; absolute paths",
       .command = "plimsoll check --data pages.jsonl counts pages and words"},
      {.name = "label-name",
       .when = {"keyerror: 'b-", "keyerror: 'i-", "keyerror: 's-", "keyerror: 'e-", "keyerror: \"b-", "keyerror: \"i-",
                "keyerror: 'o'", "a label is not in the label set", "a label's number is not in the label set"},
       .refines = {"plimsoll-error", "worker-exception"},
       .what = "the data has a label that is not in the label list",
       .cause =
           "The list was made from the training part only, or from another data set; or names differ in case or spaces",
       .confirm = "set(all labels of all parts) - set(label2id)",
       .fix = "make the list from all parts, or map the label to O",
       .command = "plimsoll check --model DIR --data pages.jsonl names page and word; --labels gives the list"},
      {.name = "bad-json",
       .when = {"jsondecodeerror", "datasetgenerationcasterror", "json parse error",
                "a line is not a whole json object", "schemainferenceerror"},
       .refines = {"plimsoll-error"},
       .what = "a file, or a server's answer, is not the JSON that it should be",
       .cause = "JSON lines are read as one JSON text, or a list where lines were expected\n"
                "A file is empty or cut short: a run was killed while it wrote it, a download broke off, two ranks "
                "wrote at once\n"
                "It is a web page, an error message or a Git LFS pointer, saved or answered in its place\n"
                "A field's type or the set of fields changes from row to row (load_dataset)",
       .confirm = "head -c 300 and tail -c 300 on the file; python -m json.tool FILE, or line by line for JSONL",
       .fix = "repair or leave out that line; json.loads for each line, load_dataset('json', …) for JSONL\n"
              "delete the cut file (trainer_state.json, a cache) and take the checkpoint before, or download it again\n"
              "make every field the same type in every row, or pass features=Features({…})",
       .command = "plimsoll check --data pages.jsonl names file and line"},
      {.name = "box-outside",
       .when = {"a box lies outside the page", "a box's right or bottom edge lies before"},
       .refines = {"plimsoll-error"},
       .what = "Plimsoll found a box that is not on its page",
       .cause = "Boxes are in another unit than --box-format says, or of another size of the page",
       .confirm = "the message names page, word and box",
       .fix = "--box-format pixel or 1000; correct the page's width and height",
       .command = "plimsoll check --data pages.jsonl lists them all"},
  };
}

}  // namespace plimsoll::doctor
