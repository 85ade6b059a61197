// What Python's exceptions mean if no rule knows the message: the class and the message say what was refused, the layer
// says where. The texts here say no more than that.
#include "doctor/raised.h"

namespace plimsoll::doctor {
namespace {

const AnyOf kImports = {"ImportError", "ModuleNotFoundError"};
const AnyOf kFiles = {"FileNotFoundError", "NotADirectoryError", "IsADirectoryError"};

// Messages that state their cause whatever the class and the place.
std::vector<Kind> package_kinds() {
  return {
      {.rule =
           {.name = "package-missing",
            .when = {"make sure you have*installed", "is not installed", "isn't installed", "not installed,",
                     "need to install", "requires the*library", "requires the*package", "please install", "pip install",
                     "must be installed", "needs to be installed", "has to be installed", "conda install",
                     "were not found in your environment", "to be installed"},
            .what = "a package that this step needs is not installed, or is too old for it",
            .cause = "The message names it: it is missing in the environment that runs, or too old there\n"
                     "It was installed for another Python, or after this process (a notebook's kernel) had started\n"
                     "It is there, and fails when it is imported alone: a part in native code, or another package that "
                     "it needs",
            .confirm = "which python; python -m pip show NAME",
            .fix =
                "python -m pip install -U NAME with the same python, then restart it (a notebook: restart the kernel)\n"
                "the environment that has it, in the job or kernel"}},
  };
}

std::vector<Kind> call_kinds() {
  return {
      {.classes = {"TypeError"},
       .rule =
           {.name = "call-arguments",
            .when = {"missing*required positional argument", "missing*required keyword-only argument",
                     "takes*positional argument*given", "takes no arguments", "takes no keyword arguments",
                     "got multiple values for", "got an unexpected keyword argument",
                     "got some positional-only arguments"},
            .what = "a function was called with other arguments than it takes",
            .cause =
                "The installed version of the package takes other arguments than the one that the code was written "
                "for: one renamed, dropped or new\n"
                "A method of the script overrides a library's, or is called by it, and has another list of parameters\n"
                "One is missing or too many in the script's own call, or self is missing in a method's definition",
            .confirm = "inspect.signature(FUNCTION) in the installed version; pip list",
            .fix = "pass what the signature lists\n"
                   "add **kwargs to a method that overrides a library's\n"
                   "install the version that the script was written for"}},
      {.classes = {"TypeError", "AttributeError", "ValueError"},
       .rule = {.name = "value-none",
                .when = {"'nonetype' object", "nonetype", "got none", "cannot be none", "must not be none", "is none",
                         "can't be none", "none is not"},
                .what = "a value is None where an object is needed",
                .cause = "A function returned None: it has no return, found nothing, or failed without a word\n"
                         "A field, argument or configuration entry was never set, or is empty in some samples\n"
                         "An optional part (a package, a tokenizer, a padding token, gradients) is not there",
                .confirm = "print the value in the line of the script that the traceback names last",
                .fix = "set the value, or handle None where it is made\n"
                       "leave out or fill empty fields in the data\n"
                       "add the missing return or argument"}},
      {.classes = {"TypeError"},
       .layers = {Layer::kTokenizer},
       .rule = {.name = "tokenizer-type",
                .what = "the tokenizer was given values of a type that it does not take",
                .cause = "A sample holds None, NaN (an empty cell) or a number in place of text\n"
                         "A list is nested otherwise than the tokenizer takes: words without is_split_into_words, a "
                         "batch of batches\n"
                         "A column, tensor or dictionary was passed instead of its text",
                .confirm = "{type(x) for x in texts}, and of one sample's elements",
                .fix = "replace None and NaN by an empty text, or leave the sample out; str(text)\n"
                       "str or lists of str (LayoutLM's: lists of words, with boxes)\n"
                       "list(column) for a column"}},
      {.classes = {"TypeError"},
       .rule = {.name = "value-type",
                .what = "a value has another type than the operation takes",
                .cause = "The message names the operation and the type: text where a number belongs, a list where a "
                         "tensor or dictionary belongs, a class in place of its instance, or the reverse",
                .confirm = "print type(VALUE) of each value in the line that the traceback names last",
                .fix = "convert the value before that line (int(…), float(…), list(…))\n"
                       "correct what makes it: a configuration's text (\"5e-5\" instead of 5e-5), a data set's field, "
                       "a function's return value\n"
                       "an instance in place of the class, a call in place of the function, or the reverse"}},
      {.classes = {"AttributeError"},
       .rule =
           {.name = "attribute-missing",
            .what = "an object does not have the attribute that is asked for",
            .cause =
                "The object is of another class than the code expects: a list or dictionary in place of a tensor or "
                "model output, None, a wrapper in place of what it wraps\n"
                "The installed version of the package has renamed, moved or dropped the attribute, or does not have it "
                "yet\n"
                "The name is misspelt, or set only later or on another path (in __init__, before super().__init__())",
            .confirm = "type(OBJECT) and dir(OBJECT) at that line; pip show PACKAGE",
            .fix = "use the name that the class has, or convert the object first (output.logits, model.module)\n"
                   "install the version that the script was written for, or a newer one\n"
                   "set the attribute before it is used"}},
      {.classes = {"NameError", "UnboundLocalError"},
       .rule = {.name = "name-undefined",
                .what = "a name is used that is not defined there",
                .cause =
                    "An import, an assignment or a notebook's cell that defines it was left out, failed before, or "
                    "is not reached on this path; or the name is misspelt\n"
                    "A package that defines it only if another one is installed lacks that one",
                .confirm = "where the name is first assigned or imported",
                .fix = "define or import it before that line; in a notebook run the earlier cells again\n"
                       "install the package that defines it, or its newer version\n"
                       "assign it on every path before it is used"}},
      {.classes = {"SyntaxError", "IndentationError", "TabError"},
       .rule = {.name = "syntax-error",
                .what = "a Python file cannot be parsed",
                .cause = "A typing error in the file and line that the message names, or syntax that this version of "
                         "Python does not have",
                .confirm = "python -m py_compile FILE; python --version",
                .fix = "correct that line; or run with the version of Python that the code was written for"}},
      {.classes = {"NotImplementedError"},
       .rule = {.name = "not-implemented",
                .what = "something was asked for that this class or version does not implement",
                .cause = "The message says what: an option that the model, data set, file system or device does not "
                         "support, or a method that a subclass must define",
                .confirm = "the option or method in the message, in the installed version's documentation",
                .fix =
                    "leave that option out or choose another; define the method; or a newer version of the package"}},
  };
}

std::vector<Kind> data_kinds() {
  return {
      {.classes = {"ValueError", "KeyError"},
       .rule = {.name = "column-unknown",
                .when = {"columns*not in the dataset", "column*not in the dataset", "none of*are in the [columns]",
                         "are in the [index]", "not in index", "not found in axis", "column name*not in",
                         "column to remove*not in", "original column name*not in", "usecols do not match columns",
                         "no such column", "missing*columns", "not in the columns"},
                .what = "a column is asked for that the table or data set does not have",
                .cause =
                    "The column has another name there, or differs in case or blanks\n"
                    "It was removed before (remove_columns), or never made: no labels were added in preprocessing\n"
                    "The file was read otherwise than meant: another separator, header or part",
                .confirm = "print(dataset.column_names) or df.columns: the message lists what there is",
                .fix = "use a name from that list, or rename the column\n"
                       "make it in preprocessing (labels = a copy of input_ids for causal language models)\n"
                       "sep=…, header=… where the table is read",
                .command = "plimsoll check --model DIR --data pages.jsonl names fields that are missing"}},
      {.classes = {"ValueError"},
       .rule = {.name = "column-exists",
                .when = {"already in the dataset", "already exists in the dataset", "duplicate column",
                         "duplicate names"},
                .what = "a column is added that is there already",
                .cause = "The same step ran twice, or two parts bring a column of one name",
                .confirm = "print(dataset.column_names)",
                .fix = "remove_columns before adding, or another name"}},
      {.classes = {"KeyError"},
       .layers = {Layer::kArguments, Layer::kLoading, Layer::kTrainer},
       .rule = {.name = "setting-missing",
                .what = "a configuration, checkpoint or table of settings has no entry of that name",
                .cause = "The entry is missing or has another name in this version, file or model; the message is the "
                         "name that was looked up",
                .confirm = "print the keys of the dictionary in the line that the traceback names last",
                .fix = "correct the name, or add the entry\n"
                       "the version of the package that knows it\n"
                       "the checkpoint or configuration of this script and model"}},
      {.classes = {"KeyError"},
       .rule = {.name = "key-missing",
                .what = "something was looked up by a name or number, and is not there",
                .cause = "A dictionary, sample or table has the field under another name than the message's (a message "
                         "that is a sentence tells itself what is missing, and where)\n"
                         "It is missing in some samples, or was removed or not made before\n"
                         "A number, text or None is looked up where keys are of another type (1 and '1')",
                .confirm = "print the keys of the dictionary (or df.columns) in the line that the traceback names last",
                .fix = "use the name that is there, or rename the field\n"
                       "handle samples that lack it: d.get(NAME), or leave them out\n"
                       "convert keys to one type"}},
      {.classes = {"IndexError"},
       .layers = {Layer::kDataSet},
       .rule = {.name = "dataset-index",
                .what = "an index lies outside what it is applied to, while the data set is read",
                .cause = "__len__ is larger than the list that __getitem__ reads\n"
                         "Indices of a Subset, split or sampler belong to a longer data set, or to a table whose rows "
                         "kept their labels\n"
                         "A list of labels, boxes, masks or images is shorter than the list of samples; or the data "
                         "set, its table or a sample's own list is empty",
                .confirm = "len(dataset), max(subset.indices), and the length of each list inside the data set",
                .fix = "make the split from this data set's own length (range(len(dataset)))\n"
                       "let __len__ return the length of the list that __getitem__ reads\n"
                       "repair the files that are short; leave out samples that are empty",
                .command = "plimsoll check --model DIR --data pages.jsonl counts pages, words, boxes and labels"}},
      {.classes = {"IndexError"},
       .rule = {.name = "index-range",
                .what = "an index lies outside a list, tuple or tensor",
                .cause = "The list is empty or shorter than the code expects: a filter or search that found nothing, a "
                         "sample without words, a line with fewer fields\n"
                         "It was made from other data than the index, or cut before\n"
                         "A tensor has fewer dimensions than the code indexes",
                .confirm = "print the index and len() of what it is applied to, in the line that the traceback names "
                           "last",
                .fix = "leave out empty samples, or test the length first\n"
                       "make list and index from the same data\n"
                       "print the shape, and index the dimension that is there"}},
      {.classes = {"ValueError"},
       .rule = {.name = "unpack-count",
                .when = {"too many values to unpack", "not enough values to unpack"},
                .what = "a tuple, list or shape has another number of values than the code takes apart",
                .cause =
                    "A function, a data set's item or a model's output returns more or fewer values than the code "
                    "takes apart (another version's, a dictionary)\n"
                    "A tensor or array has another number of dimensions: a batch dimension, an image without channels\n"
                    "A line of a file has more or fewer fields than expected",
                .confirm = "print the right-hand side of the line that the traceback names last: its length or shape",
                .fix = "take apart as many values as there are (a, *rest = …), or by name: output.logits\n"
                       "give each sample or tensor the form that the code expects\n"
                       "leave out or repair that line"}},
      {.classes = {"ValueError"},
       .rule =
           {.name = "text-not-number",
            .when = {"invalid literal for int", "could not convert string to float", "invalid literal for float"},
            .what = "a text is read as a number and is none",
            .cause =
                "A heading, an empty field, a comma, a unit or a label's name stands where the code expects a number\n"
                "The column is another one than meant: the separator or the order differs\n"
                "The text is a path or a word: the file was to be opened, or the names mapped to numbers first\n"
                "A name is used as the index of something that takes numbers (a list, a tensor, rows of a data set)",
            .confirm = "the text that the message quotes",
            .fix = "leave that row out, or clean it (strip, replace(',', '.'))\n"
                   "map names to numbers first (label2id)\n"
                   "read another column, or with another separator or header"}},
      {.classes = {"UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError"},
       .rule = {.name = "encoding-error",
                .what = "text cannot be read or written in that encoding",
                .cause = "The file is in another encoding than the code says, or is no text at all; on Windows open() "
                         "without encoding='utf-8' takes the system's own",
                .confirm = "`file` on the file that was being read or written",
                .fix = "open(…, encoding='utf-8'), PYTHONUTF8=1, or convert the file"}},
  };
}

std::vector<Kind> tensor_kinds() {
  return {
      {.classes = {"RuntimeError", "ValueError", "IndexError", "AssertionError"},
       .layers = {Layer::kMetric},
       .rule = {.name = "metric-values",
                .what = "the metric refused the predictions or labels that it was given",
                .cause = "The message says what does not fit: scores in place of classes (argmax is missing), "
                         "predictions and labels of different lengths or types, or -100 among the labels",
                .confirm = "shape, type and first values of predictions and labels at the start of compute_metrics",
                .fix = "argmax over the last axis\n"
                       "leave out positions whose label is -100, in both alike\n"
                       "both as lists of one length and type; names instead of ids where the metric wants them",
                .command = "plimsoll eval reports precision, recall and F1 by itself"}},
      {.classes = {"RuntimeError", "ValueError", "IndexError", "AssertionError"},
       .layers = {Layer::kLoss},
       .rule = {.name = "loss-values",
                .what = "the loss refused the logits or labels that it was given",
                .cause =
                    "The message says what does not fit: their shapes, their types, or a label outside the classes",
                .confirm = "shape, dtype, minimum and maximum of logits and labels just before the loss",
                .fix = "logits as (N, classes) floats and labels as (N) whole numbers below the number of classes "
                       "(-100 where nothing counts), as the loss in use wants them"}},
      {.classes = {"RuntimeError", "ValueError", "IndexError", "AssertionError", "InvalidArgumentError"},
       .rule = {.name = "tensor-shape",
                .when = {"shape", "dimension", "size of tensor", "sizes of tensors", "expected input", "size mismatch",
                         "number of dim", "same size", "same length", "length mismatch", "lengths must", "ndim",
                         "channels"},
                .what = "a tensor or list has another shape or length than the operation takes",
                .cause = "Two inputs were made, padded, resized or cut differently: the message gives the sizes that "
                         "do not fit\n"
                         "A batch or channel dimension is missing or doubled, or axes are in another order\n"
                         "The input, or a layer of one's own, is for another model or size",
                .confirm = "print the shapes of all inputs in the line that the traceback names last",
                .fix = "make both from the same samples with the same padding, truncation or resizing\n"
                       "add or remove the dimension that is wrong (unsqueeze, squeeze, transpose)\n"
                       "the model's own processor, and layers of the sizes that they get"}},
      {.classes = {"RuntimeError", "ValueError", "TypeError"},
       .rule = {.name = "tensor-type",
                .when = {"dtype", "scalar type", "floating point", "integer tensor", "not supported between",
                         "unsupported dtype", "data type", "long tensor", "complex"},
                .what = "a tensor or array has another number type than the operation takes",
                .cause = "The message names the types: whole numbers where real ones belong, half precision beside "
                         "single precision, or text in an array",
                .confirm = "print dtype of every input in the line that the traceback names last",
                .fix = "convert the input (.long(), .float(), .to(model.dtype)); keep weights in float32 under mixed "
                       "precision"}},
      {.classes = {"RuntimeError", "ValueError"},
       .rule = {.name = "tensor-device",
                .when = {"on the same device", "different devices", "device type", "on cpu", "on cuda",
                         "device mismatch", "not on cuda"},
                .what = "tensors lie on different devices, or on one that the operation does not take",
                .cause = "The model, the inputs or a tensor that was made on the way is on the CPU and the rest on the "
                         "GPU",
                .confirm = "{p.device for p in model.parameters()}, and .device of every input",
                .fix =
                    "model.to(device) and batch = {k: v.to(device) for k, v in batch.items()}; make new tensors with "
                    "device=x.device"}},
      {.classes = {"RuntimeError"},
       .layers = {Layer::kBackward},
       .rule = {.name = "backward-refused",
                .what = "autograd refused the backward pass",
                .cause = "The message says why: the graph was freed, changed in place, cut off, or never made",
                .confirm = "torch.autograd.set_detect_anomaly(True) names the operation of forward",
                .fix = "one backward for one forward; no in-place changes of tensors that the graph needs; parameters "
                       "with requires_grad"}},
  };
}

std::vector<Kind> place_kinds() {
  return {
      {.classes = {"MisconfigurationException"},
       .rule = {.name = "lightning-refused",
                .what = "Lightning refused how its trainer, module or callbacks are set up or called, or the machine",
                .cause = "The message names the argument, call or device that is not allowed or not there, and what "
                         "is",
                .confirm = "that argument or hook in the documentation of the installed version of Lightning",
                .fix = "change the argument or move the call as the message says (in hooks at the end of an epoch: "
                       "on_step=False, on_epoch=True)"}},
      {.classes = {"ValidationError", "ConfigAttributeError", "ConfigKeyError", "MissingMandatoryValue",
                   "ConfigTypeError", "ConfigCompositionException", "OverrideParseException", "MissingConfigException",
                   "StrictDataclassFieldValidationError", "ArgumentError", "UsageError", "NoSuchOption", "BadParameter",
                   "ScannerError", "ParserError", "ConstructorError", "HfArgumentParserError"},
       .rule = {.name = "configuration-refused",
                .what = "a configuration file or an option was refused",
                .cause = "The message names the key or option: it is unknown, missing, misspelt, or has a value of the "
                         "wrong type",
                .confirm = "that key in the configuration file and on the command line",
                .fix =
                    "correct or remove it as the message says; take names from the installed version's documentation"}},
      {.classes = {"ValueError", "RuntimeError", "AssertionError", "TypeError"},
       .layers = {Layer::kArguments},
       .rule = {.name = "arguments-refused",
                .what = "the run's arguments were refused",
                .cause =
                    "The message names the argument: its value, type or combination with another one is not allowed",
                .confirm = "that argument in the command line, script or configuration file",
                .fix = "change it as the message says"}},
      {.classes = kImports,
       .rule = {.name = "import-refused",
                .what = "a package cannot be imported, or lacks a name",
                .cause = "It is not installed in the environment that runs, or another package that it needs is not\n"
                         "It is of another version than the code, or than the package that imports it\n"
                         "A part in native code cannot be loaded: built for another Python, PyTorch or CUDA",
                .confirm = "which python; python -m pip show NAME",
                .fix = "python -m pip install -U NAME with the same python, then restart it\n"
                       "the version that the code was written for\n"
                       "pip install --force-reinstall NAME, in the build for the installed PyTorch"}},
      {.classes = kFiles,
       .rule = {.name = "path-missing",
                .what = "a file or directory is not where the program looks for it",
                .cause = "A misspelt or relative path, a directory that is not mounted, or a file that was never made, "
                         "unpacked or downloaded",
                .confirm = "ls -l on the path in the message, on the machine and in the container where it runs",
                .fix = "correct the path (absolute ones do not depend on the working directory)\n"
                       "mount, unpack, download or make the file\n"
                       "os.makedirs(directory, exist_ok=True) before writing"}},
      {.classes = {"FileExistsError"},
       .rule = {.name = "path-exists",
                .what = "a file or directory is there already and may not be replaced",
                .cause = "An earlier run left it, or another process of this run made it first",
                .confirm = "ls -ld on the path in the message",
                .fix = "another output directory, or remove what is left over; let one rank only make it "
                       "(exist_ok=True)"}},
      {.classes = {"ConnectionError", "ConnectTimeout", "ReadTimeout", "TimeoutError", "SSLError", "ProxyError",
                   "HTTPError", "HfHubHTTPError", "ConnectTimeoutError", "URLError", "ConnectError",
                   "RemoteDisconnected", "ReadTimeoutError", "ClientError", "EndpointConnectionError", "APIError"},
       .rule = {.name = "network-refused",
                .what = "a server could not be reached, or refused the request",
                .cause = "No network on this node, a proxy or a firewall\n"
                         "The service is down or slow, or gets too many requests\n"
                         "A wrong address, name or token; the message gives the address and the answer",
                .confirm = "curl -I on the address, from the same node",
                .fix = "download on a machine with network, then HF_HUB_OFFLINE=1\n"
                       "set https_proxy; try again later\n"
                       "correct address or token"}},
      {.classes = {"PermissionError"},
       .rule = {.name = "path-permission",
                .what = "a file or directory may not be read or written",
                .cause = "It belongs to another user, is mounted read-only, or is open in another program",
                .confirm = "ls -ld on the path in the message",
                .fix = "another directory (the option, HF_HOME or TMPDIR that the path comes from)\n"
                       "chown or chmod it\n"
                       "close the other program"}},
      {.classes = {"OSError", "EnvironmentError", "IOError"},
       .layers = {Layer::kLoading},
       .rule = {.name = "loading-refused-os",
                .what = "a model, tokenizer or data set could not be loaded from that name or directory",
                .cause = "The directory lacks a file: another format, a checkpoint's parent, a tokenizer that was not "
                         "saved, a download cut short\n"
                         "The name does not exist on the hub, is private or gated, or the hub is not reached\n"
                         "The file is damaged, or may not be read",
                .confirm = "ls -l the directory, or open the name on https://huggingface.co",
                .fix = "an absolute path to the directory that has config.json, weights and tokenizer\n"
                       "the right name; huggingface-cli login\n"
                       "download it again"}},
      {.classes = {"OSError", "EnvironmentError", "IOError", "BlockingIOError"},
       .rule = {.name = "system-refused",
                .what = "the operating system refused a file, device or connection",
                .cause = "The message gives the system's reason and the path",
                .confirm = "ls -l and df -h on that path",
                .fix = "what the system's reason asks for: another path, more space, other rights"}},
      {.layers = {Layer::kLoading},
       .rule = {.name = "loading-refused",
                .what = "what was loaded was refused: a model, tokenizer, checkpoint or data set",
                .cause = "The message says why: a name, type, shape or version in the files that does not fit the code "
                         "that loads them",
                .confirm = "the file or key that the message names; pip list for the versions",
                .fix = "files and packages that belong together: the model's own directory, the version of the package "
                       "that wrote it"}},
      {.layers = {Layer::kSaving},
       .rule =
           {.name = "saving-refused",
            .what = "a checkpoint or model could not be saved; training itself is not at fault",
            .cause = "A value or configuration that cannot be stored: generation settings that contradict each other, "
                     "a type that JSON lacks\n"
                     "Tensors that share memory, or weights that are spread over devices or ranks\n"
                     "The path: a disk that is full, gone or not writable",
            .confirm = "the name that the message gives; model.generation_config and model.config; df -h",
            .fix =
                "correct that value before saving (model.generation_config.do_sample = True, or temperature = None)\n"
                "safe_serialization=False, or save model.state_dict() alone to keep the weights\n"
                "another directory with space"}},
      {.layers = {Layer::kTokenizer},
       .rule = {.name = "tokenizer-refused",
                .what = "the tokenizer refused its input or options",
                .cause = "The message says what it wants: another type or form of text, words with boxes, or another "
                         "combination of padding and truncation",
                .confirm = "print type and value of what the tokenizer is given for the failing sample",
                .fix = "pass what the message asks for; leave out or repair samples that are empty or None"}},
      {.layers = {Layer::kProcessor},
       .rule = {.name = "processor-refused",
                .what = "the processor refused an image, words or boxes",
                .cause = "The message says what it wants: another image mode, size or type, or words and boxes of one "
                         "length",
                .confirm = "print mode, size and type of the image, and the lengths of words and boxes",
                .fix = "image.convert('RGB'); one box a word; leave out pages that cannot be read",
                .command = "plimsoll check --model DIR --data pages.jsonl names file, page and word"}},
      {.layers = {Layer::kCollator},
       .rule = {.name = "collator-refused",
                .what = "the data collator could not make a batch of the samples",
                .cause =
                    "The message says why: fields of different lengths, types that are no tensors, or a field that "
                    "is missing in a sample",
                .confirm = "call the collator by hand on a few samples: print each one's fields, types and lengths",
                .fix = "pad every field, drop text columns, and use the collator of the task"}},
      {.classes = {"AssertionError"},
       .layers = {Layer::kDataSet, Layer::kPreparation},
       .rule = {.name = "data-form",
                .what = "data have another form than the code that reads them insists on",
                .cause = "A line, file or sample has other columns, lengths or fields than the rest or than the reader "
                         "expects: labels or boxes are missing, or files that belong together differ in length",
                .confirm = "the assertion in the line that the traceback names last, with the sample or line that it "
                           "reads then printed",
                .fix = "correct or leave out that sample, or write the data in the form that the reader documents; "
                       "prediction needs the same columns as training",
                .command = "plimsoll check --model DIR --data pages.jsonl names file, line and field"}},
      {.layers = {Layer::kDataSet, Layer::kPreparation},
       .rule = {.name = "data-refused",
                .what = "a sample or a step of preparing the data was refused",
                .cause = "The message says what does not fit: a value, type or length in the data",
                .confirm = "run the step by hand on the sample that fails (num_workers=0, num_proc=1)",
                .fix = "repair or leave out that sample, or make the step handle it",
                .command = "plimsoll check --model DIR --data pages.jsonl names file, page and word"}},
      {.layers = {Layer::kOptimizer},
       .rule = {.name = "optimizer-refused",
                .what = "the optimizer, the schedule or the scaler refused what it was given",
                .cause = "The message says why: parameters, gradients or options that it does not take",
                .confirm = "the parameters that the optimizer was made from, their dtype and device",
                .fix = "make the optimizer after the model was moved and wrapped, from parameters that train\n"
                       "correct the option that the message names (a number, not text)\n"
                       "the same optimizer and groups as the checkpoint's, or begin without its state"}},
      {.layers = {Layer::kAdapters},
       .rule = {.name = "adapters-refused",
                .what = "peft refused the adapters' configuration or the model",
                .cause = "The message says why: layers that are not there, a type that it does not support, or a model "
                         "that was prepared otherwise",
                .confirm = "the LoraConfig, and {n for n, m in model.named_modules()}",
                .fix = "change the configuration as the message says"}},
      {.layers = {Layer::kQuantization},
       .rule = {.name = "quantization-refused",
                .what = "the weights cannot be quantised, or used as they are quantised",
                .cause =
                    "The message says why: a device, type or version that the package does not support, or modules "
                    "that were placed on the CPU",
                .confirm = "python -m bitsandbytes; pip list | grep -iE 'bitsandbytes|transformers|accelerate|torch'",
                .fix = "what the message asks for; device_map={'': 0} with enough free memory, so that nothing lies on "
                       "the CPU\n"
                       "pip install -U bitsandbytes transformers accelerate\n"
                       "load without quantisation"}},
      {.layers = {Layer::kCompilation},
       .rule = {.name = "compilation-refused",
                .what = "compiling the model or an extension failed",
                .cause = "The message says why",
                .confirm = "the same run without torch.compile or the extension",
                .fix = "leave torch.compile out; or repair what the compiler names"}},
      {.layers = {Layer::kTracker},
       .rule = {.name = "tracker-refused",
                .what = "the experiment tracker failed and ended the run; training itself is not at fault",
                .cause = "The message says why: a login, a network, a name or a value that the tracker does not take",
                .confirm = "the same run with report_to='none'",
                .fix = "report_to='none', or WANDB_MODE=offline; else what the message asks for"}},
      {.layers = {Layer::kDistributed},
       .rule = {.name = "distributed-refused",
                .what = "the distributed engine refused how the run is set up",
                .cause = "The message says why: an option, a shape or a state that DDP, FSDP, DeepSpeed or "
                         "torch.distributed does not take",
                .confirm = "the same run on one GPU without the launcher",
                .fix = "what the message asks for\n"
                       "the same code path, shapes and options on every rank\n"
                       "PyTorch, accelerate and DeepSpeed of one age"}},
      {.layers = {Layer::kTrainer},
       .rule = {.name = "trainer-refused",
                .what = "the trainer refused something that it was given",
                .cause =
                    "The message says which: an argument, the data, a callback, or an object of another version or "
                    "library than the trainer expects",
                .confirm = "the line of your own code that the traceback names last; that argument or object in the "
                           "documentation of the installed version",
                .fix = "change what the message names"}},
      {.layers = {Layer::kModel},
       .rule = {.name = "model-refused",
                .what = "a step inside the model failed",
                .cause = "The message says what does not fit: an input (missing, doubled, of another shape, type or "
                         "value), or the state of a layer's own weights\n"
                         "The model's code and the library that calls it are of different versions",
                .confirm = "print {k: (v.shape, v.dtype) for k, v in batch.items()} before the model is called",
                .fix = "give the model what its forward lists; use its own processor and collator\n"
                       "where the message is not about an input: what it asks for, or packages of one age"}},
      {.classes = {"ZeroDivisionError"},
       .rule = {.name = "division-zero",
                .what = "something was divided by zero",
                .cause = "An empty data set, loader, page or list: a wrong path, a filter that left nothing, fewer "
                         "samples than a batch\n"
                         "A count or sum that is 0 in this sample: no labels, no words, an image without size\n"
                         "A size or setting that was not set",
                .confirm = "print the divisor in the line that the traceback names last",
                .fix = "correct the path or filter; drop_last=False\n"
                       "leave out what is empty, or max(1, n) as divisor"}},
      {.classes = {"AssertionError"},
       .rule = {.name = "condition-false",
                .what = "a condition that the code insists on does not hold",
                .cause = "The condition or its message says which: a value, length, type or option is not what the "
                         "code was written for",
                .confirm = "print both sides of the condition in the line that the traceback names last",
                .fix = "make the condition true: correct the value, data or option that it names"}},
      {.rule = {.name = "value-refused",
                .what = "an error from the program or a library ended the run; its message is all that is known",
                .cause = "What the message says: a value, an option, a state, or packages that do not fit one another",
                .confirm = "what the message names, in the line that the traceback names last",
                .fix = "change what the message names"}},
  };
}

}  // namespace

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds = [] {
    std::vector<Kind> all;
    for (auto* table : {package_kinds, call_kinds, data_kinds, tensor_kinds, place_kinds})
      for (Kind& kind : table()) all.push_back(std::move(kind));
    return all;
  }();
  return kinds;
}

}  // namespace plimsoll::doctor
