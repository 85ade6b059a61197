// The hub, downloads and caches, and loading of data sets.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> hub_rules() {
  return {
      {.name = "hub-gated",
       .when = {"gated repo", "cannot access gated", "401 client error", "403 client error",
                "must have access to it and be authenticated", "your request to access model",
                "is not a local folder and is not a valid model identifier", "repository not found for url",
                "invalid username or password", "repositorynotfounderror",
                "doesn't exist on the hub or cannot be accessed", "client error '401 unauthorized' for url*huggingface",
                "client error '403 forbidden' for url*huggingface", "make sure your token has the correct permissions"},
       .refines = {"hub-unreachable", "dataset-missing", "weights-missing", "load-name"},
       .what = "the hub does not give out that model or data set under this name",
       .cause = "The name is misspelt, or the model or data set was renamed, removed or made private\n"
                "It is gated, and this account has not accepted its terms, or has not been let in yet\n"
                "No token, or one without rights to it, reaches the job: not logged in, another HF_HOME, a "
                "fine-grained token\n"
                "A local path that does not exist here, or a folder of the same name in the working directory",
       .confirm = "open https://huggingface.co/NAME in a browser; huggingface-cli whoami, in the job itself",
       .fix =
           "correct the name\n"
           "accept the model's terms on its page, then huggingface-cli login or HF_TOKEN=… in the job's environment\n"
           "a token with read rights for gated repositories\n"
           "an absolute path for a local folder",
       .command = "plimsoll takes a directory: --model DIR"},
      {.name = "hub-login",
       .when = {"you are trying to access a gated repo", "cannot access gated repo", "gatedrepoerror",
                "must have access to it and be authenticated", "is a gated dataset on the hub",
                "access to model*is restricted", "access to dataset*is restricted"},
       .without_anywhere = {"is awaiting a review", "not in the authorized list", "fine-grained token settings",
                            "your request to access", "ask for access"},
       .refines = {"hub-gated", "hub-unreachable", "dataset-missing", "weights-missing", "load-name",
                   "adapter-missing"},
       .what = "the repository is gated, and the hub does not know who asks: log in",
       .cause =
           "No token reaches the run: nobody is logged in on this machine, in this container or under this HF_HOME, "
           "or the job does not inherit HF_TOKEN\n"
           "The token is invalid, revoked or cut short\n"
           "The account has not yet accepted the terms on the repository's page",
       .confirm = "hf auth whoami (huggingface-cli whoami), in the job itself; the page of the repository, logged in",
       .fix =
           "accept the terms on the page of the repository, then hf auth login (huggingface-cli login), or HF_TOKEN=… "
           "in the job's environment; token=… in from_pretrained\n"
           "download it where you are logged in, and pass the local directory\n"
           "another copy of the model that is not gated",
       .command = "plimsoll takes a directory: --model DIR"},
      {.name = "hub-terms",
       .when = {"your request to access model*is awaiting", "your request to access dataset*is awaiting",
                "is awaiting a review from the repo authors", "not in the authorized list",
                "fine-grained token settings", "enable access to public gated repositories",
                "your request to access model", "your request to access dataset", "403*gated repo"},
       .refines = {"hub-gated", "hub-login", "hub-unreachable", "dataset-missing", "weights-missing", "load-name",
                   "adapter-missing"},
       .what = "the repository is gated, and this account or token has no access to it",
       .cause =
           "The account has not asked for access on the repository's page, or the authors have not granted it yet\n"
           "The token is fine-grained, without the right to read gated repositories\n"
           "The token in the job is another account's than the one that was let in",
       .confirm = "the page of the repository, logged in: \"You have been granted access\"; hf auth whoami "
                  "(huggingface-cli whoami), in the job itself",
       .fix = "ask for access and accept the terms on that page; wait for the authors, where they review it\n"
              "a token of type read, or \"Read access to contents of all public gated repos\" in the fine-grained "
              "token's settings\n"
              "HF_TOKEN=… of the account that was let in",
       .command = "plimsoll takes a directory: --model DIR"},
      {.name = "hub-placeholder",
       .when = {"huggingface.co/your-*/resolve", "huggingface.co/your_*/resolve", "huggingface.co/yourname*/resolve",
                "huggingface.co/yourusername*/resolve", "huggingface.co/username/*/resolve",
                "huggingface.co/user-name/*/resolve", "huggingface.co/path/to*/resolve", "huggingface.co/%3c*/resolve",
                "error: your-*is not a local folder", "error: your_*is not a local folder",
                "error: yourusername*is not a local folder", "error: username/*is not a local folder",
                "error: path/to/*is not a local folder", "error: <*is not a local folder",
                "dataset 'your-*doesn't exist on the hub", "dataset 'your_*doesn't exist on the hub",
                "dataset 'username/*doesn't exist on the hub"},
       .refines = {"hub-gated", "hub-unreachable", "dataset-missing", "weights-missing", "load-name", "model-path"},
       .what = "the name is an example's placeholder, and no model or data set bears it",
       .cause = "The name was copied with the code: your-username, username or path/to stands where the account's own "
                "name and the repository's belong\n"
                "The model was to be pushed under the account's own name, and was not yet",
       .confirm = "the name in the message; open https://huggingface.co/NAME in a browser",
       .fix = "the real name: account/repository as in the address of its page, or a local directory's path\n"
              "push the model first (trainer.push_to_hub()), or load the directory that save_pretrained wrote\n"
              "huggingface-cli login, if the repository is private",
       .command = "plimsoll takes a directory: --model DIR"},
      {.name = "hub-one-letter",
       .when = {kNameOfOneLetter},
       .refines = {"hub-gated", "hub-unreachable", "dataset-missing", "weights-missing", "load-name", "model-path"},
       .what = "a model's name of one letter was looked up: only a part of the name arrived",
       .cause = "A name was indexed or looped over as if it were a list of names: name[0] of 'bert-base-uncased' is "
                "'b', and so is the first of `for name in 'bert-base-uncased'` or of a, *rest = name\n"
                "The code expects a list of models (nargs='+', a configuration's list), and got one text",
       .confirm = "print(repr(NAME)) in the line of your own code that calls from_pretrained",
       .fix = "pass the whole name, without the index\n"
              "make it a list where the code loops over it: ['bert-base-uncased']",
       .command = "plimsoll takes a directory: --model DIR"},
      {.name = "hub-retry",
       .level = Level::kNote,
       .when = {"retrying in*[retry 1/", "retrying in*[retry 2/", "retrying in*[retry 3/", "retrying in*[retry 4/"},
       .without_anywhere = {"[retry 5/5]", "localentrynotfounderror", "cannot find the requested files in the",
                            "couldn't connect to", "couldn't reach", "connectionerror: "},
       .usual = true,
       .refines = {"hub-unreachable", "no-network", "download-cut"},
       .what = "a request to the hub failed and was made again, and the log holds no failure of the last try",
       .cause = "The connection or a proxy broke off for a moment, or the hub was busy",
       .confirm = "the lines below it: the download or the run goes on",
       .fix = "nothing, where the run goes on\n"
              "HF_HUB_OFFLINE=1 once all files are in the cache, so that no request can hold the run up"},
      {.name = "hub-none",
       .when = {"huggingface.co/none/", "huggingface.co/api/models/none", "huggingface.co/api/datasets/none",
                "huggingface.co/datasets/none/", "repository not found for url: https://huggingface.co/none"},
       .refines = {"hub-unreachable", "hub-gated", "load-name"},
       .what = "the name of the model or data set is None: it was never set",
       .cause =
           "An option or a key of the configuration that names it is missing, empty or misspelt, and str(None) went to "
           "the hub\n"
           "The script reads it from another section or an older configuration",
       .confirm = "print the configuration: repo_id, model_name_or_path, dataset_name",
       .fix = "set it where the script reads it, or on the command line\n"
              "a local path, where the data lie on this machine"},
      {.name = "hub-unreachable",
       .when = {"couldn't connect to*huggingface", "cannot find the requested files in the*cache",
                "localentrynotfounderror", "we couldn't connect to", "maxretryerror*huggingface",
                "httpsconnectionpool*huggingface", "failed to resolve 'huggingface.co'", "proxyerror",
                "temporary failure in name resolution", "max retries exceeded with url", "couldn't reach",
                "connect timeout=", "is not cached locally", "connectionerror: (protocolerror",
                "failed to establish a new connection"},
       .outage = true,
       .refines = {"load-name"},
       .what = "a model's files are not found here and cannot be downloaded",
       .cause = "No network on this machine (a compute node, a container), or only through a proxy that is not set\n"
                "The name or path is wrong: a local directory that does not exist here, or lacks the file, is looked "
                "up on the hub\n"
                "The server is down, or a firewall lets it through only in part",
       .confirm = "ls the directory; curl -I https://huggingface.co",
       .fix = "download on a machine with network (huggingface-cli download), copy the directory or cache, then "
              "HF_HUB_OFFLINE=1\n"
              "https_proxy=… where there is one; HF_ENDPOINT=… for a mirror\n"
              "an absolute path to a directory that has config.json, weights and tokenizer\n"
              "try again later",
       .command = "plimsoll train --model DIR needs no network; it says which file is missing"},
      {.name = "load-name",
       .when = {"can't load tokenizer for", "can't load the model for", "can't load the configuration of",
                "can't load config for", "can't load feature extractor for", "can't load image processor for",
                "can't load processor for"},
       .what = "no such model, tokenizer or processor is found under that name or in that directory",
       .cause = "The directory lacks the files: the tokenizer or processor was not saved beside the model, it is the "
                "parent of checkpoint-N, or an adapter\n"
                "The name is misspelt, private or gated, or its repository has no such files\n"
                "A local folder of the same name hides the one on the hub, or the local path does not exist here\n"
                "No network, and nothing in the cache",
       .confirm = "ls the directory in the message; open https://huggingface.co/NAME; ls the working directory",
       .fix = "load the tokenizer or processor from the base model, and save it with save_pretrained into the model's "
              "directory\n"
              "correct the name, or give an absolute path; huggingface-cli login for private and gated ones\n"
              "rename the local folder of that name\n"
              "download it where there is a network",
       .command = "plimsoll train --model DIR says which file is missing"},
      {.name = "hub-offline",
       .when = {"offline mode is enabled", "offlinemodeisenabled", "outgoing traffic has been disabled"},
       .refines = {"hub-unreachable", "dataset-missing", "hub-gated", "weights-missing", "load-name"},
       .what = "offline mode is on, and a model or data set is not in the local cache",
       .cause = "HF_HUB_OFFLINE, HF_DATASETS_OFFLINE or TRANSFORMERS_OFFLINE is set, and nothing of that name was "
                "downloaded before\n"
                "It was downloaded under another HF_HOME or user, in another revision, or not all files of it",
       .confirm = "printenv | grep -iE 'offline|HF_HOME'; ls ~/.cache/huggingface/hub",
       .fix = "download it where there is a network, with the same HF_HOME (huggingface-cli download NAME)\n"
              "the path of the downloaded directory instead of the name\n"
              "unset the variable, if this machine has a network",
       .command = "plimsoll train --model DIR needs no network; it says which file is missing"},
      {.name = "hub-server",
       .when = {"server error*huggingface.co", "429 client error", "gateway time-out for url*huggingface",
                "'429 too many requests' for url*huggingface"},
       .outage = true,
       .refines = {"hub-unreachable", "hub-gated", "load-name"},
       .what = "the hub is overloaded, or gets too many requests from here",
       .cause = "A 5xx is the hub's own failure and passes; 429 means that this address or token asks too often (many "
                "jobs or workers at once)",
       .confirm = "https://status.huggingface.co; the code in the message",
       .fix =
           "try again later; download once, then HF_HUB_OFFLINE=1 for the jobs; huggingface-cli login raises the limit",
       .command = "plimsoll train --model DIR needs no network"},
      {.name = "hub-code",
       .when = {"contains custom code which must be executed",
                "requires you to execute the dataset script in that repo",
                "requires you to execute the configuration file in that repo", "resolve_trust_remote_code",
                "do you wish to run the custom code"},
       .what = "the model or data set brings Python code, and the library does not run it unasked",
       .cause =
           "trust_remote_code is not set; where nobody can answer the question (a batch job), it ends in an EOFError",
       .confirm = "the message names the repository",
       .fix = "read that code; then trust_remote_code=True, with a fixed revision\n"
              "a repository or a class of transformers that needs none\n"
              "pip install -U transformers, if the model has its own class there by now"},
      {.name = "dataset-script",
       .when = {"dataset scripts are no longer supported"},
       .what = "the data set is a Python script, which datasets 4 no longer runs",
       .cause = "The data set is loaded by a script, as many older ones are, and datasets dropped that in 4.0\n"
                "A local .py file or a folder with one is passed to load_dataset",
       .confirm = "pip show datasets; the message names the script",
       .fix = "the copy in Parquet: load_dataset(NAME, revision='refs/convert/parquet'), or another repository that "
              "has it as files\n"
              "pip install 'datasets<4', with trust_remote_code=True",
       .command = "plimsoll reads JSONL and images, and runs nothing"},
      {.name = "hub-token",
       .when = {"localtokennotfounderror", "token is required*but no token found", "token is required (`token=true`)",
                "you need to be authenticated", "invalid user token", "user access token*is expired",
                "illegal header value b'bearer", "could not read username for 'https://huggingface.co",
                "could not read password for 'https*huggingface.co"},
       .refines = {"hub-gated", "hub-unreachable", "hub-write", "load-name"},
       .what = "no valid token of the Hugging Face hub is found",
       .cause = "push_to_hub, or a private or gated repository, needs one, and the machine or job is not logged in "
                "(another HF_HOME, no HF_TOKEN)\n"
                "The token was revoked, has expired, or is empty or has a line break",
       .confirm = "huggingface-cli whoami",
       .fix = "huggingface-cli login, or HF_TOKEN=… in the job's environment\n"
              "push_to_hub=False, if nothing is to be uploaded\n"
              "a new token from the hub's settings"},
      {.name = "hub-write",
       .when = {"you don't have the rights to create", "403 forbidden: you don't have", "forbidden: pass `create_pr=1`",
                "you must use a write token", "don't have permission to*namespace"},
       .refines = {"hub-gated", "hub-unreachable", "load-name"},
       .what = "the token may not write to that repository",
       .cause = "The token has read rights only, or the namespace is another user's or organisation's",
       .confirm = "huggingface-cli whoami; the token's role in the hub's settings",
       .fix = "a token with the role \"write\", then huggingface-cli login again\n"
              "hub_model_id='YOUR-NAME/MODEL'\n"
              "push_to_hub=False"},
      {.name = "certificate-file",
       .when = {"could not find a suitable tls ca certificate bundle"},
       .refines = {"hub-unreachable", "certificate", "load-name"},
       .what = "the file of certificates that the environment names does not exist",
       .cause = "REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE is set to a path that is wrong, relative, or of "
                "another machine or container",
       .confirm = "env | grep -iE 'ca_bundle|ssl_cert'; ls -l on the path in the message",
       .fix = "unset the variable\n"
              "the right path in it (python -m certifi prints Python's own), mounted in the container"},
      {.name = "certificate",
       .when = {"certificate_verify_failed", "certificate verify failed", "self signed certificate",
                "unable to get local issuer certificate"},
       .refines = {"hub-unreachable", "download-cut", "load-name"},
       .what = "a TLS certificate could not be verified",
       .cause = "A company's proxy replaces certificates, and its own is not known to Python\n"
                "Python's or the system's certificates are old or were never installed, or the clock is wrong\n"
                "The server's own certificate has expired",
       .confirm = "curl -v https://huggingface.co shows who issued the certificate",
       .fix = "REQUESTS_CA_BUNDLE and SSL_CERT_FILE with the proxy's certificate\n"
              "pip install -U certifi; the machine's clock set right; on macOS Install Certificates.command\n"
              "download elsewhere, copy the cache, and HF_HUB_OFFLINE=1"},
      {.name = "download-race",
       .when = {"filenotfounderror*.incomplete", "filenotfounderror*.lock'", "filenotfounderror*->*/cache-*.arrow'",
                "oserror*stale file handle*huggingface"},
       .refines = {"file-missing", "dataset-missing", "worker-exception", "hub-unreachable"},
       .what = "several processes fill one cache, and an unfinished file of one was taken away",
       .cause =
           "Ranks or jobs that start together download or map the same model or data set, in a cache on a shared file "
           "system (NFS) whose locks do not hold between nodes\n"
           "Something cleaned the cache while the download ran",
       .confirm = "it passes once the files are in the cache; df -T on the cache's path: nfs, lustre, fuse",
       .fix = "download once before (huggingface-cli download NAME), then HF_HUB_OFFLINE=1 in the job\n"
              "rank 0 alone downloads, the others wait: with accelerator.main_process_first()\n"
              "HF_HOME on each node's own disk"},
      {.name = "no-network",
       .when = {"network is unreachable", "no route to host", "name or service not known", "getaddrinfo failed",
                "nodename nor servname provided", "urlopen error", "[errno 110] connection timed out", "connecttimeout",
                "connecterror"},
       .with = {{"urllib", "urlopen", "requests/", "httpx", "http/client.py", "download", "boto", "gdown", "wget",
                 "ftplib"}},
       .without = {"http error 4", "certificate_verify_failed"},
       .outage = true,
       .refines = {"hub-unreachable", "load-name"},
       .what = "something cannot be downloaded: this machine does not reach the server",
       .cause = "The machine has no way to the internet (a compute node, a container), or only through a proxy that is "
                "not set\n"
                "The server's name is misspelt, or the server no longer exists",
       .confirm = "curl -I with the address in the message or the traceback, on this very machine",
       .fix = "download it on a machine with network (a login node) into the same cache, or give the local path\n"
              "set https_proxy where there is one"},
      {.name = "download-cut",
       .when = {"consistency check failed: file should be of size", "incompleteread(", "chunkedencodingerror",
                "connection broken: ", "read timed out", "contenttooshorterror", "retrieval incomplete",
                "error decoding response body", "cas service error"},
       .outage = true,
       .refines = {"hub-unreachable", "load-name"},
       .what = "a download broke off",
       .cause = "The connection or a proxy ended it, or the disk filled up",
       .confirm = "the address in the message; df -h on the cache",
       .fix = "run it again (downloads are resumed); delete a file that stays broken\n"
              "HF_HUB_DOWNLOAD_TIMEOUT=60\n"
              "HF_HUB_DISABLE_XET=1 and HF_HUB_ENABLE_HF_TRANSFER=0, behind a proxy above all\n"
              "make room on the cache's disk"},
      {.name = "git-lfs",
       .when = {"git-lfs not found", "'lfs' is not a git command", "you do not have git-lfs installed",
                "git-lfs*not installed", "git: 'lfs'"},
       .refines = {"hub-unreachable", "command-missing", "load-name"},
       .what = "Git LFS is not installed",
       .cause = "Repository.clone_from and old push_to_hub call git-lfs",
       .confirm = "git lfs version",
       .fix = "apt-get install git-lfs && git lfs install; or a newer huggingface_hub, which needs no Git"},
      {.name = "metric-missing",
       .when = {"couldn't find a module script at", "module '*' doesn't exist on the hugging face hub",
                "couldn't find a metric script", "couldn't reach*/evaluate/", "couldn't reach*metrics/"},
       .refines = {"dataset-missing", "hub-unreachable", "file-missing", "path-missing", "load-name"},
       .what = "the metric's script is found neither here nor on the hub",
       .cause = "No network on this machine, or the hub is not reached from it: evaluate.load downloads the metric's "
                "script on first use\n"
                "The name is misspelt, or is a data set's or a measurement's (module_type='measurement')\n"
                "A folder of that name in the working directory is taken for it",
       .confirm = "curl -I https://huggingface.co/spaces/evaluate-metric/NAME; ls the working directory",
       .fix = "git clone https://github.com/huggingface/evaluate where there is network, and "
              "evaluate.load('PATH/evaluate/metrics/NAME')\n"
              "scikit-learn, seqeval or rouge_score directly in compute_metrics\n"
              "correct the name; rename the folder",
       .command = "plimsoll eval reports precision, recall and F1 by itself"},
      {.name = "dataset-missing",
       .when = {"couldn't find a dataset script at", "datasetnotfounderror", "couldn't find any data file",
                "no (supported) data files", "couldn't find '*dataset", "doesn't contain any data files",
                "builderconfig*not found", "config name is missing", "couldn't reach '*' on the hub",
                "couldn't reach https*raw.githubusercontent", "filenotfounderror: unable to find '",
                "unable to resolve any data file", "datafilesnotfounderror"},
       .refines = {"file-missing", "hub-unreachable", "load-name"},
       .what = "the data set, its files or its configuration are not found",
       .cause = "A misspelt name or path, or one relative to another working directory\n"
                "A configuration or pattern (data_files, data_dir, split) that does not exist there\n"
                "The data set was moved, is private or gated, or was not downloaded or mounted\n"
                "The machine has no network",
       .confirm = "the name in the message on https://huggingface.co/datasets, or ls on the path",
       .fix = "the right name (datasets.get_dataset_config_names(NAME) lists configurations), or an absolute path\n"
              "load_dataset('json', data_files=PATH) for local files ('csv', 'parquet', 'imagefolder'); load_from_disk "
              "for what save_to_disk wrote\n"
              "huggingface-cli login for private ones",
       .command = "plimsoll check --model DIR --data pages.jsonl"},
      {.name = "datasets-fsspec",
       .when = {"loading a dataset cached in a localfilesystem is not supported",
                "invalid pattern: '**' can only be an entire path component", "protocol not known: hf",
                "'hffilesystem' object has no attribute"},
       .what = "the versions of datasets and fsspec do not belong together",
       .cause = "datasets before 2.14 breaks with fsspec 2023.9 and newer, and the reverse",
       .confirm = "pip list | grep -iE 'datasets|fsspec|huggingface'",
       .fix = "pip install -U datasets huggingface_hub fsspec, then restart Python\n"
              "pip install 'fsspec<2023.9' beside an old datasets"},
      {.name = "dataset-failed",
       .level = Level::kEcho,
       .when = {"an error occurred while generating the dataset", "datasetgenerationerror"},
       .what = "a data set could not be made: its builder failed",
       .cause = "The exception that stands before it in the log",
       .confirm = "\"The above exception was the direct cause\": the traceback before that line",
       .fix = "repair what that exception names, and delete the cache of the data set\n"
              "no space, no memory or a file that is not as the rest: look at the path or row that it names"},
      {.name = "json-records",
       .when = {"not able to read records in the json file"},
       .refines = {"bad-json", "dataset-failed"},
       .what = "a JSON file cannot be read as rows of one table",
       .cause =
           "One key holds values of different types: numbers in some rows and text in others, or lists beside single "
           "values\n"
           "The file is no list of objects and no object a line: an object whose rows lie under a key wants field=…\n"
           "The file is damaged, or not UTF-8",
       .confirm =
           "the line above that begins with \"Failed to read file\": the value and the type that it was tried as",
       .fix = "make each key the same type in every row (str(x), [x])\n"
              "load_dataset('json', data_files=…, field='data') where the rows lie under a key\n"
              "python -m json.tool FILE, or one object a line"},
      {.name = "columns-differ",
       .when = {"valueerror: couldn't cast$", "because column names don't match",
                "all the data files must have the same columns"},
       .refines = {"dataset-failed", "arrow-type", "bad-json"},
       .what = "the files of a data set have different columns",
       .cause =
           "One file has a column more or less than the others (or than features= declares): an earlier export, a test "
           "file without labels, a file that does not belong there\n"
           "A folder was loaded whole, and holds other JSON or CSV files too",
       .confirm = "the two lists of columns in the message: which is missing?",
       .fix = "data_files= with the files that belong together, or a split for each kind\n"
              "give all files the same columns, or load them one by one and concatenate after remove_columns"},
      {.name = "arrow-type",
       .when = {"arrowinvalid: could not convert", "arrowtypeerror", "couldn't cast array of type",
                "arrowinvalid: cannot mix list and non-list", "json parse error*changed from*to*in row",
                "arrowinvalid: cannot mix struct and non-struct", "arrownotimplementederror",
                "casterror: couldn't cast", "arrowinvalid: float value*was truncated", "the features can't be aligned",
                "arrowinvalid: integer value*not in range"},
       .refines = {"bad-json", "dataset-failed"},
       .what = "a column holds values of different types, or of another type than declared",
       .cause = "Numbers beside text, lists beside single values or None beside objects in one column\n"
                "Features were declared, or inferred from the first rows, and later rows or files differ\n"
                "A function in map() returns another type than before: an image, a tensor, a number of another size",
       .confirm = "the column and value in the message; type(x) over all rows of that column",
       .fix = "make every row the same type (str(x), [x], None everywhere or nowhere)\n"
              "pass features=Features({…}) that fits; load files of different schemas one by one\n"
              "dataset.cast_column(NAME, …), or remove_columns before the function adds its own"},
      {.name = "arrow-offset",
       .when = {"offset overflow while concatenating arrays", "arrowcapacityerror", "exceeds maximum*2147483646"},
       .refines = {"arrow-type", "bad-json"},
       .what = "one batch of a column is larger than 2 GiB",
       .cause = "Arrow's offsets have 32 bits: a thousand images, sounds or long texts in one batch of map() go beyond "
                "2 GiB\n"
                "A column of long texts or lists is joined as one (sort, shuffle, to_pandas)",
       .confirm = "it passes with writer_batch_size=50",
       .fix = "map(…, batch_size=50, writer_batch_size=50)\n"
              "keep images as paths and decode them in set_transform\n"
              "large_string or large_list as the column's type",
       .command = "plimsoll reads images from their files"},
      {.name = "column-missing",
       .when = {"keyerror: '"},
       .with = {{"examples[", "example[", "batch[", "sample[", "item[", "features[", "feature[", "row[", "data[",
                 "arrow_dataset.py", "formatting/formatting.py", "dataset_dict.py", "[feature_name]"}},
       .refines = {"worker-exception", "unexpected-input", "dataset-failed"},
       .what = "the data has no field of that name",
       .cause = "The column is called otherwise in this data set or part\n"
                "It was removed before (remove_columns, remove_unused_columns), or never made by the step that should\n"
                "It is missing in some rows, or the file was read with another header or separator",
       .confirm = "print(dataset.column_names), and the keys of the first row",
       .fix = "the name that is there, or dataset.rename_column(OLD, NEW)\n"
              "keep or make the column: remove_unused_columns=False, or preprocessing before training\n"
              "item.get(NAME), or leave out rows without it",
       .command = "plimsoll check --model DIR --data pages.jsonl names fields that are missing"},
      {.name = "tokenizer-output",
       .when = {"keyerror: 'token_type_ids'", "keyerror: 'attention_mask'", "keyerror: 'offset_mapping'",
                "keyerror: 'special_tokens_mask'", "keyerror: 'overflowing_tokens'",
                "keyerror: 'num_truncated_tokens'"},
       .refines = {"column-missing", "worker-exception", "unexpected-input", "label-name"},
       .what = "the tokenizer's result has no such field",
       .cause = "The tokenizer was not asked for it, and does not return it by itself: return_token_type_ids, "
                "return_offsets_mapping, return_overflowing_tokens, return_special_tokens_mask\n"
                "The model has none: RoBERTa and its kind take no token_type_ids; slow tokenizers have no offsets\n"
                "Another version of the library returned it by default\n"
                "The column was dropped before (remove_columns, remove_unused_columns)",
       .confirm = "print(tokenizer('a').keys(), tokenizer.model_input_names, tokenizer.is_fast)",
       .fix = "ask for it in the call: tokenizer(…, return_token_type_ids=True)\n"
              "leave the field out where the model has none: encoding.get('token_type_ids')\n"
              "use_fast=True for offsets; the library's version that the code was written for",
       .command = "plimsoll makes every input that the model takes itself"},
      {.name = "arrow-dimensions",
       .when = {"can only convert 1-dimensional array values", "arrowinvalid: can only convert"},
       .refines = {"arrow-type", "bad-json"},
       .what = "a multidimensional array was given where Arrow expects lists",
       .cause = "map() returned images as a list of arrays (pixel_values, image): datasets stores an Array3D column "
                "from one "
                "array or from nested lists",
       .confirm = "type(encoded['pixel_values']) and its first element's shape",
       .fix = "encoded['pixel_values'] = np.array(encoded['pixel_values']) before it is returned; or "
              "return_tensors='np'; a newer datasets",
       .command = "plimsoll reads images from their files"},
      {.name = "feature-type",
       .when = {"valueerror: feature type '", "must be called with a dataclass type or instance"},
       .with = {{"datasets/features", "dataset_info", "feature type '", "datasets/info.py", "load_from_disk",
                 "load_dataset"}},
       .refines = {"dataset-failed"},
       .what = "the data set was written by a newer version of datasets than is installed",
       .cause = "datasets 4 writes the types List and LargeList, which version 3 and earlier do not know: in a cache, "
                "a repository's README or a directory of save_to_disk\n"
                "A cache of another environment with another version is shared (HF_HOME)",
       .confirm = "pip show datasets; the type in the message, in dataset_info.json or the repository's README",
       .fix = "pip install -U datasets, then restart Python\n"
              "make the cache or directory again with the installed version (download_mode='force_redownload')\n"
              "another HF_DATASETS_CACHE for each environment"},
      {.name = "pyarrow-version",
       .when = {"does not have a datasets dtype equivalent", "module 'pyarrow' has no attribute",
                "'pyarrow.lib' has no attribute", "pyarrow.lib.unknownextensiontype"},
       .refines = {"module-attribute", "arrow-type"},
       .what = "pyarrow and datasets are of different versions",
       .cause =
           "datasets before 2.15 does not know its own array types under pyarrow 14.0.1 and newer; pyarrow 21 dropped "
           "PyExtensionType",
       .confirm = "pip list | grep -iE 'pyarrow|datasets'",
       .fix = "pip install -U datasets pyarrow, then restart Python"},
      {.name = "overflow-mapping",
       .when = {"keyerror: 'overflow_to_sample_mapping'", "keyerror: overflow_to_sample_mapping",
                "keyerror: 'offset_mapping'"},
       .refines = {"column-missing"},
       .what = "the tokenizer's mapping of windows to pages is among the columns, or missing from them",
       .cause =
           "return_overflowing_tokens=True adds overflow_to_sample_mapping (and offset_mapping) to what the function "
           "returns, and the declared features do not have it\n"
           "It is asked for, and the tokenizer was called without return_overflowing_tokens, or is no fast one",
       .confirm = "print(encoding.keys()) in the function",
       .fix = "encoding.pop('overflow_to_sample_mapping') before it is returned, and repeat images by it; or add it to "
              "the "
              "features",
       .command = "plimsoll train cuts long pages into windows by itself"},
      {.name = "class-label-100",
       .when = {"class label -100 less than -1", "class label *greater than configured num_classes"},
       .refines = {"arrow-type"},
       .what = "a column of class labels got a number that is no class",
       .cause = "-100, which stands for ignored tokens, is written into a ClassLabel column\n"
                "The data has more classes than the feature declares",
       .confirm = "features['labels'] of the data set that map() writes",
       .fix = "declare labels as Sequence(Value('int64')) in features, or remove the old column with remove_columns"},
      {.name = "label-unknown",
       .when = {"keyerror: "},
       .with = {{"label2id[", "label_to_id[", "label_map[", "tag2id[", "tag2idx[", "label2idx[", "labels_to_ids[",
                 "label_dict[", "class_to_idx[", "str2int", "tag_to_id["}},
       .refines = {"column-missing", "worker-exception", "label-name"},
       .what = "the data has a label that is not in the label list",
       .cause = "The list was made from the training part only, or from another data set\n"
                "Names differ in case, blanks or prefix (B-, I-), or are numbers in one place and text in the other\n"
                "A label is empty or misspelt in some rows",
       .confirm = "set(all labels of all parts) - set(label2id)",
       .fix = "make the list from all parts of the data\n"
              "str(label).strip(), one spelling for all\n"
              "map labels that are not in it to O (or leave the rows out)",
       .command = "plimsoll check --model DIR --data pages.jsonl names page and word"},
      {.name = "predicted-label",
       .when = {"keyerror: "},
       .with = {{"label_map[logits", "label_map[pred", "label_map[out", "id2label[logits", "id2label[pred",
                 "id2label[out", "id2label[p]", "label_map[p]", "id2tag[", "idx2tag[", "idx2label[", "id_to_label["}},
       .refines = {"column-missing", "worker-exception", "label-name", "label-unknown"},
       .what = "the model predicts a class that the list of labels does not name",
       .cause = "The list begins at 1 (0 stands for padding), or names fewer classes than the model's head has "
                "(num_labels): a model that has learnt little predicts the rest, too\n"
                "The list is of another data set than the one that the model was trained on",
       .confirm = "the key in the message against the keys of the list; model.config.num_labels",
       .fix = "a list with an entry for each of the head's classes, from 0 on; positions whose label is ignored (-100) "
              "left out before the look-up"},
      {.name = "checkpoint-key",
       .when = {"keyerror: '"},
       .with = {{"checkpoint[", "ckpt[", "state_dict[", "loaded[", "saved["}},
       .refines = {"column-missing"},
       .what = "the checkpoint has no entry of that name",
       .cause = "It was written by another script or framework, or holds the bare state_dict\n"
                "It is of an earlier version of this script, or holds only the weights (no optimizer, epoch or scaler)",
       .confirm = "print(torch.load(path, map_location='cpu').keys())",
       .fix = "the key that is there ('model', 'state_dict', 'model_state_dict'), or the whole file as state_dict\n"
              "checkpoint.get(NAME), where the entry is only needed to resume"},
      {.name = "field-missing",
       .when = {"keyerror: 'labels'", "keyerror: 'label'", "keyerror: 'ner_tags'", "keyerror: 'tokens'",
                "keyerror: 'words'", "keyerror: 'bboxes'", "keyerror: 'boxes'", "keyerror: 'image'",
                "keyerror: 'image_path'", "keyerror: 'text'", "keyerror: 'file_name'", "keyerror: 'annotations'"},
       .refines = {"worker-exception", "column-missing"},
       .what = "the data has no field of that name",
       .cause = "The column is called otherwise in this data set\n"
                "It was removed before (remove_columns, remove_unused_columns), or is missing in some rows",
       .confirm = "print(dataset.column_names), and the keys of one sample",
       .fix = "the name that is there, or dataset.rename_column(OLD, NEW)\n"
              "keep the column: remove_unused_columns=False, no remove_columns of it\n"
              "make it in preprocessing (labels = a copy of input_ids for causal language models)",
       .command = "plimsoll check --model DIR --data pages.jsonl names fields that are missing"},
      {.name = "pandas-index",
       .when = {"^keyerror: ", "keyerror: "},
       .with = {{"pandas/core/indexes", "pandas\\core\\indexes", "pandas/_libs/index", "pandas\\_libs\\index",
                 "index_class_helper", "hashtable"},
                {"get_loc", "getitem"}},
       .refines = {"worker-exception", "column-missing"},
       .what = "a pandas table has no such column or row",
       .cause = "A number as key: rows keep their labels after train_test_split or a filter, and the data set asks for "
                "row 0 to N-1\n"
                "A name as key: the column is called otherwise, often with blanks around it",
       .confirm = "df.columns and df.index at that line",
       .fix = "df.reset_index(drop=True) after every split or filter, or df.iloc[i]\n"
              "the column's right name: df.columns = df.columns.str.strip(); sep=… and header=… of read_csv"},
      {.name = "pdf-damaged",
       .when = {"pdfpagecounterror", "pdfsyntaxerror", "unable to get page count. syntax", "no /root object",
                "eof marker not found", "cannot open broken document"},
       .what = "a PDF cannot be read",
       .cause = "It is cut short or empty, or no PDF at all (a web page saved under that name)\n"
                "It is encrypted, or made by a program that breaks the format",
       .confirm = "`file` and `pdfinfo` on it",
       .fix = "leave out or replace that file\n"
              "repair it: qpdf IN OUT, or mutool clean; qpdf --decrypt with its password"},
      {.name = "image-unread",
       .when = {"!_src.empty()", "!ssize.empty()", "-215:assertion failed", "(-215) "},
       .refines = {"worker-exception"},
       .what = "OpenCV refused an image: it is empty, or not of the form that the function takes",
       .cause = "cv2.imread returned None, without an error, for a path that does not exist or a file that it cannot "
                "decode\n"
                "A crop or resize has no height or width: a box outside the image, coordinates swapped\n"
                "The array is of another type or number of channels than the function takes (float64, bool, a tensor, "
                "grey for colour)",
       .confirm = "the condition in the message: empty() is a missing image; else image.shape and image.dtype just "
                  "before; os.path.exists(path)",
       .fix = "correct the path; leave out files that are no images (cv2.imread(path) is None)\n"
              "clip boxes to the image before cropping, and leave out empty ones\n"
              "image.astype('uint8'), np.ascontiguousarray(image), cv2.cvtColor to the channels that it takes",
       .command = "plimsoll check --model DIR --data pages.jsonl --decode-images names them"},
      {.name = "image-mode",
       .when = {"cannot write mode", "cannot handle this data type", "image has wrong mode",
                "image has wrong number of channels"},
       .refines = {"worker-exception", "image-channels"},
       .what = "an image has a mode or type that cannot be saved or converted",
       .cause = "Transparency (RGBA, P) in a JPEG, or an array of floats or with its channels first passed to "
                "Image.fromarray",
       .confirm = "image.mode, or array.dtype and array.shape",
       .fix = "image.convert('RGB')\n"
              "(array * 255).astype('uint8') with shape height x width x 3\n"
              "save as PNG, where transparency is to stay"},
      {.name = "image-too-small",
       .when = {"kernel size can't be greater than actual input size", "calculated padded input size per channel",
                "calculated output size*output size is too small"},
       .what = "an image is smaller than a convolution's kernel",
       .cause = "Images are not resized, or are smaller than the network's layers of stride allow\n"
                "The axes are in another order (height x width x channels), or a batch dimension is missing",
       .confirm = "pixel_values.shape before that layer",
       .fix = "Resize to the size that the model was made for; leave out empty crops\n"
              "x.permute(0, 3, 1, 2), unsqueeze(0)\n"
              "fewer layers with stride, padding in the convolution"},
  };
}

}  // namespace plimsoll::doctor
