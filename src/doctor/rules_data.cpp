// Batches, labels, pages: what goes into the model.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> data_rules() {
  return {
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
       .command = "plimsoll check --model DIR --data pages.jsonl names file and line"},
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
       .when = {"tokenizer does not have a padding token", "cannot handle batch sizes > 1 if no padding token",
                "argument 'padding_value' (position 3) must be float, not nonetype",
                "argument 'fill_value'*must be number, not nonetype", "pad_token_id*cannot be none",
                "'pad_token_id' must be", "padding token is not set", "pad token is not set", "pad_token is not set",
                "pad_token_id is none", "no pad token"},
       .refines = {"worker-exception", "value-none", "padding-token-unset"},
       .what = "the tokenizer has no padding token",
       .cause = "It was trained for generation, or its special tokens were not saved with it",
       .confirm = "tokenizer.pad_token is None",
       .fix =
           "tokenizer.pad_token = tokenizer.eos_token, and model.config.pad_token_id = tokenizer.pad_token_id\n"
           "or tokenizer.add_special_tokens({'pad_token': '[PAD]'}) and model.resize_token_embeddings(len(tokenizer))",
       .command = "plimsoll train packs pages without padding"},
      {.name = "padding-token-unset",
       .when = {"using pad_token, but it is not set yet"},
       .anywhere = {{"in collate", "pad_sequence(", "in _collate", "data_collator.py", "in pad(", "_collator",
                     "padding_value="}},
       .passes = true,
       .refines = {"worker-exception"},
       .what = "the tokenizer has no padding token, and the batch was to be padded with it",
       .cause =
           "It was trained for generation (GPT-2, Llama and their like), and pad_token is None: what pads the batch "
           "gets None in place of a number\n"
           "Its special tokens were not saved with it",
       .confirm = "tokenizer.pad_token is None",
       .fix =
           "tokenizer.pad_token = tokenizer.eos_token, and model.config.pad_token_id = tokenizer.pad_token_id\n"
           "or tokenizer.add_special_tokens({'pad_token': '[PAD]'}) and model.resize_token_embeddings(len(tokenizer))\n"
           "a batch of one sample, which needs no padding",
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
       .what = "samples of different lengths or sizes cannot be put into one batch",
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
      {.name = "collate-images",
       .when = {kImagesOfSizes},
       .refines = {"collate", "worker-exception"},
       .what = "images (or their latents) of different sizes cannot be put into one batch",
       .cause =
           "Images were not brought to one size before they were stacked: no resize and crop in the transforms, or "
           "one that keeps the aspect ratio (Resize(N) sets the shorter side only)\n"
           "Batches are to be made by aspect ratio (buckets), and images or cached latents of several buckets came "
           "together\n"
           "Images of pages or sequences of frames differ in their number besides",
       .confirm = "the two shapes in the message; {x.shape for x in samples} of the failing batch",
       .fix =
           "transforms.Resize((H, W)) with both sides, or Resize(N) and then CenterCrop(N); the model's own image "
           "processor does both\n"
           "batches of one bucket each; delete cached latents that were made with other sizes\n"
           "batch size 1, or padding to the largest (pad=True, torch.nn.functional.pad) where the model takes a mask",
       .command = "plimsoll brings images to the model's size by itself"},
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
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page and word"},
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
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page and word"},
      {.name = "tokenizer-input",
       .when = {"textencodeinput must be", "textinputsequence must be", "text input must of type",
                "text input must be of type `str`", "text input must be of type str",
                "input is not valid. should be a string", "inputs must be of type `str`",
                "input must be of type `str`"},
       .refines = {"worker-exception", "words-and-boxes"},
       .what = "the tokenizer was given something that is not text",
       .cause = "A sample holds None, NaN (an empty cell of a table) or a number instead of a str\n"
                "A list is nested one level too deep, or words were passed without is_split_into_words=True\n"
                "A tensor, dictionary or whole column was passed instead of its text",
       .confirm = "{type(text) for text in texts}: anything but str, or lists of str",
       .fix = "dataset.filter(lambda x: isinstance(x['text'], str)), df.dropna(subset=['text']) or str(text)\n"
              "is_split_into_words=True for lists of words; list(column) for a column",
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page and word"},
      {.name = "visual-tokens",
       .when = {"[512]*[561", "[561*[512", "(512)*(561)", "(561)*(512)", "[512]*[709", "[709*[512", "(512)*(709)",
                "(709)*(512)"},
       .refines = {"broadcast", "sequence-too-long", "length-mismatch", "loss-shapes"},
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
       .command = "plimsoll check --model DIR --data pages.jsonl names file, page and word"},
      {.name = "bad-image",
       .when = {"image file is truncated", "cannot identify image file", "unidentifiedimageerror", "broken png",
                "broken data stream when reading image", "bytes not processed",
                "could not find a format to read the specified file in mode 'i'", "syntaxerror: not a png file",
                "imread_*can't open/read file", "truncated file read", "libpng error"},
       .refines = {"worker-exception"},
       .what = "an image cannot be decoded",
       .cause =
           "A download or copy cut short, or an empty file\n"
           "A file that is no image: a web page, a text, a file of macOS (._name), another format under that name\n"
           "A format that the library does not read (HEIC, WebP, 16 bits)",
       .confirm = "`file` on the images; PIL.Image.open(path).load() over all of them",
       .fix = "replace or leave out that image: try Image.open(path).load() over all of them once\n"
              "ImageFile.LOAD_TRUNCATED_IMAGES = True, to use what is there of cut ones\n"
              "convert it (pillow-heif for HEIC)",
       .command =
           "plimsoll check --model DIR --data pages.jsonl --decode-images decodes every image and names the bad ones"},
      {.name = "image-channels",
       .when = {kImagesOfChannels, "unable to infer channel dimension format", "to have 3 channels, but got",
                "unsupported number of image dimensions", "mean must have*elements", "pil image mode",
                "channel dimension*num_channels", "make sure that the channel dimension of the pixel values match"},
       .refines = {"worker-exception", "broadcast", "collate"},
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
       .fix = "remove_unused_columns=False (with peft label_names=['labels'] besides)\n"
              "rename the columns to forward's names (input_ids, attention_mask, labels, pixel_values)\n"
              "tokenize before training, and pass what map() returns; correct the filter or split"},
      {.name = "table-without-rows",
       .when = {"indexerror: list index out of range", "indexerror: index", "zerodivisionerror: "},
       .with = {{"key % table.num_rows", "in fast_gather", "in fast_slice"}},
       .refines = {"worker-exception", "unused-columns"},
       .what = "the data set's table has no rows: every column was dropped, or it is empty",
       .cause =
           "The Trainer removes columns that the model's forward() does not name, and a wrapped model (peft) or one "
           "of your own names none of them (*args, **kwargs): nothing is left, though len() still tells the rows\n"
           "The data set is empty: a wrong path or split, a filter that leaves nothing, remove_columns of all",
       .confirm = "trainer.get_train_dataloader().dataset: its column_names and num_rows, against "
                  "train_dataset.column_names and inspect.signature(model.forward)",
       .fix = "remove_unused_columns=False in TrainingArguments, with label_names=['labels']\n"
              "peft: the right task_type in the adapter's config, so that its forward names input_ids and labels; a "
              "newer peft\n"
              "see that the data set has rows and the columns input_ids, attention_mask, labels after map()"},
      {.name = "dataset-as-table",
       .when = {"invalid literal for int() with base 10",
                "typeerror: wrong key type",
                "not supported between instances",
                "'dataset' object has no attribute 'iloc'",
                "'dataset' object has no attribute 'loc'",
                "'dataset' object has no attribute 'head'",
                "'dataset' object has no attribute 'columns'",
                "'dataset' object has no attribute 'values'",
                "'dataset' object has no attribute 'dropna'",
                "'dataset' object has no attribute 'drop'",
                "'dataset' object has no attribute 'apply'",
                "'dataset' object has no attribute 'groupby'",
                "'dataset' object has no attribute 'sample'",
                "'dataset' object has no attribute 'iterrows'",
                "'dataset' object has no attribute 'reset_index'",
                "'dataset' object has no attribute 'isnull'",
                "'datasetdict' object has no attribute 'head'",
                "'datasetdict' object has no attribute 'iloc'",
                "'datasetdict' object has no attribute 'columns'",
                "'datasetdict' object has no attribute 'drop'"},
       .with = {{"_check_valid_index_key", "_raise_bad_key_type", "'dataset' object", "'datasetdict' object"}},
       .refines = {"worker-exception", "dataset-failed"},
       .what = "a data set of the library datasets is used as if it were a pandas table",
       .cause =
           "dataset[…] takes a row's number, a slice, a list of numbers or one column's name: a list of names, or a "
           "condition (dataset[dataset['label'] == 1]), is read as numbers of rows\n"
           "The name was a DataFrame before and is a Dataset since load_dataset, from_pandas or map",
       .confirm = "type(dataset) in the line of your own code that the traceback names last",
       .fix = "dataset.select_columns(['text']) for columns, dataset.filter(lambda row: …) for rows\n"
              "frame = dataset.to_pandas() first, and Dataset.from_pandas(frame) after\n"
              "of a DatasetDict one split first: dataset['train']"},
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
      {.name = "loss-none",
       .when = {"unsupported operand type(s) for /: 'nonetype' and",
                "unsupported operand type(s) for /=: 'nonetype' and",
                "unsupported operand type(s) for *: 'nonetype' and", "'nonetype' object has no attribute 'item'",
                "'nonetype' object has no attribute 'mean'", "'nonetype' object has no attribute 'detach'"},
       .with = {{"loss / ", "loss /=", "loss = loss", "loss.item(", "loss.mean(", "loss.detach(", "loss * "}},
       .refines = {"value-none", "no-loss"},
       .what = "the model returned None in place of a loss",
       .cause = "The batch has no labels, or under a name that the model does not know (label, ner_tags), so that it "
                "computes no loss\n"
                "The model has no head for the task, or its own forward or compute_loss returns no loss\n"
                "Labels are there in training and missing in evaluation, or in some batches only",
       .confirm = "print(batch.keys()); model(**batch).loss just before that line",
       .fix = "name them labels, keep the column; label_names=['labels'] in TrainingArguments\n"
              "a …For… class (ForTokenClassification, ForCausalLM) rather than the bare model\n"
              "DataCollatorForLanguageModeling(mlm=False) for language models, which makes labels of input_ids",
       .command = "plimsoll check --model DIR --data pages.jsonl says which pages have no labels"},
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
       .command = "plimsoll check --model DIR --data pages.jsonl says which pages have no labels"},
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
                "a data file has no pages", "train_dataloader*has length 0", "corresponds to no data!",
                "with size 0 and no elements"},
       .refines = {"plimsoll-error"},
       .what = "the data set is empty",
       .cause = "A wrong path, pattern or split: nothing was found\n"
                "A filter, a limit on lengths or a sampling that leaves nothing\n"
                "The reader skipped every file or row: other extensions, columns or folders than it expects",
       .confirm = "len(dataset) before and after each step",
       .fix = "print len() after each step, and correct the path, pattern or filter\n"
              "the folders and extensions that the reader documents; absolute paths",
       .command = "plimsoll check --model DIR --data pages.jsonl counts pages and words"},
      {.name = "metric-classes",
       .when = {"y_true and y_pred contain different number of classes",
                "number of classes in y_true not equal to the number of"},
       .what = "a metric was given other classes than occur in the data",
       .cause =
           "The validation set lacks a class that the model has: it is small, or split without stratification\n"
           "Names or scores are for the model's classes, and labels were numbered otherwise (from 1, or with gaps)",
       .confirm = "numpy.unique(y_true), the number of columns of the scores, and len(target_names)",
       .fix = "labels=range(number of classes) in the metric's call\n"
              "stratify=labels in the split\n"
              "number the labels from 0 without gaps"},
      {.name = "one-class",
       .when = {"only one class present in y_true", "valueerror(\"only one class",
                "roc auc score is not defined in that case", "y_true contains only one label",
                "this solver needs samples of at least 2 classes"},
       .what = "a metric of two classes was asked of data that holds one",
       .cause =
           "The validation set, a fold of it or a batch has no positive or no negative sample: it is small, sorted, or "
           "split without stratification\n"
           "The labels were all read as the same value: a wrong column, a threshold, files of another data set\n"
           "The metric is computed for each batch or class, some of which have one value",
       .confirm = "numpy.unique(y_true, return_counts=True)",
       .fix = "train_test_split(…, stratify=labels), or a larger validation set\n"
              "compute the metric once, over the whole set; leave out classes that do not occur\n"
              "see how the labels of the evaluation data are read"},
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
      {.name = "json-row",
       .when = {"json parse error: missing a", "json parse error: invalid", "json parse error: terminate",
                "json parse error: the document"},
       .refines = {"bad-json", "json-lines", "json-syntax", "dataset-failed"},
       .what = "load_dataset met a row that is not valid JSON",
       .cause = "A record is broken: a comma, brace or quotation mark is missing, a backslash begins no escape, NaN or "
                "a line break stands where JSON has none\n"
                "The file is an indented list, and is read as JSON Lines\n"
                "It was cut short: a download or the program that wrote it was stopped",
       .confirm = "the row that the message names, counted from 0; python -c \"import json; [json.loads(l) for l in "
                  "open('FILE')]\" names the line",
       .fix = "repair that record, or leave it out; write records with json.dumps\n"
              "convert an indented list to one record a line, and delete the cut file and make it again",
       .command = "plimsoll check --model DIR --data pages.jsonl names file and line"},
      {.name = "json-syntax",
       .when = {"jsondecodeerror: invalid*escape", "jsondecodeerror: invalid control character",
                "jsondecodeerror: expecting property name enclosed in double quotes",
                "jsondecodeerror: expecting ',' delimiter", "jsondecodeerror: expecting ':' delimiter",
                "jsondecodeerror: illegal trailing comma"},
       .refines = {"bad-json", "plimsoll-error"},
       .what = "the text of a JSON file is not valid at the line and column that the message names",
       .cause = "A backslash that begins no escape: a Windows path (C:\\data) or a regular expression\n"
                "A comma after the last entry or none between two, single quotes or True and None (Python's own "
                "notation), or a comment\n"
                "A line break or tab inside a string; or the file was cut short, or holds a merge conflict's marks",
       .confirm = "python -m json.tool FILE; sed -n LINEp FILE shows the line that the message names",
       .fix = "write / or \\\\ for the backslash\n"
              "correct the line: double quotes, commas between entries only, true and null\n"
              "write the file with json.dump, not with print or str",
       .command = "plimsoll check --model DIR --data pages.jsonl names file and line"},
      {.name = "json-not-lines",
       .when = {"jsondecodeerror: expecting value: line 1 column 2 (char 1)",
                "jsondecodeerror: expecting value: line 2 column 1 (char",
                "jsondecodeerror: expecting property name enclosed in double quotes: line 1 column 2",
                "jsondecodeerror: expecting property name enclosed in double quotes: line 2 column 1"},
       .with = {{"loads(line", "loads(l)", "loads(row", "loads(x)", "line.strip()", "for line in", "loads(ln",
                 "loads(s)", "readline"}},
       .refines = {"json-syntax", "bad-json", "plimsoll-error"},
       .what = "the file was read one JSON object a line, and its first line is no whole object",
       .cause = "The file is one list or an indented object over many lines, not JSON Lines\n"
                "Its first line is blank or broken",
       .confirm = "head -c 300 FILE: JSON Lines have one whole {…} on every line",
       .fix = "convert it: for record in json.load(open(FILE)): print(json.dumps(record), file=lines)\n"
              "or read it whole: json.load(file), load_dataset('json', data_files=FILE)",
       .command = "plimsoll check --model DIR --data pages.jsonl names file and line"},
      {.name = "json-lines",
       .when = {"jsondecodeerror: extra data"},
       .without_anywhere = {"json parse error:"},
       .refines = {"bad-json", "plimsoll-error"},
       .what = "the file was read as one JSON text, and more follows after its first value",
       .cause = "The file is JSON Lines (an object on every line), and json.load reads a single one\n"
                "Two processes wrote it at once, or a program appended to it",
       .confirm = "head -n 2 FILE: a second object on line 2 means JSON Lines",
       .fix = "[json.loads(line) for line in open(FILE)], pd.read_json(FILE, lines=True), or load_dataset('json', …)\n"
              "write the records as one list, or delete the cut or doubled file and make it again",
       .command = "plimsoll check --model DIR --data pages.jsonl names file and line"},
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
       .command = "plimsoll check --model DIR --data pages.jsonl names file and line"},
      {.name = "box-outside",
       .when = {"a box lies outside the page"},
       .refines = {"plimsoll-error"},
       .what = "Plimsoll found a box that is not on its page",
       .cause = "Boxes are in another unit than --box-format says, or of another size of the page",
       .confirm = "the message names page, word and box",
       .fix = "--box-format pixel or 1000; correct the page's width and height",
       .command = "plimsoll check --model DIR --data pages.jsonl lists them all"},
      {.name = "box-inverted",
       .when = {"a box's right or bottom edge lies before"},
       .refines = {"plimsoll-error"},
       .what = "Plimsoll found a box whose corners are the wrong way round",
       .cause = "The box is written as [x1, y1, x0, y0], or as [x, y, width, height]\n"
                "A rotated or empty word of the OCR engine",
       .confirm = "the message names page, word and box; is its third number a width?",
       .fix =
           "write [left, top, right, bottom]\n"
           "plimsoll check --model DIR --data pages.jsonl --fix mended.jsonl swaps corners where nothing else is wrong",
       .command = "plimsoll check --model DIR --data pages.jsonl lists them all"},
  };
}

}  // namespace plimsoll::doctor
