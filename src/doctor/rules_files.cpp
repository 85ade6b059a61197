// Files of data and checkpoints that exist, but are not what the code expects.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> file_rules() {
  return {
      {.name = "hdf5-damaged",
       .when = {"bad object header version number", "wrong b-tree signature", "file signature not found",
                "unable to open file (truncated file", "can't read data (", "unable to open object (",
                "unable to synchronously open"},
       .with = {{"h5py", "hdf5", ".h5"}},
       .refines = {"worker-exception", "damaged-file"},
       .what = "an HDF5 file cannot be read",
       .cause = "It was opened once and is read by several workers: a handle does not survive fork, and what is read "
                "through "
                "it is mixed up\n"
                "The file is truncated or damaged: a copy, download or write was cut short\n"
                "Another process writes to it, or it has no object of that name: list(file.keys())",
       .confirm = "num_workers=0: does it pass? h5dump -H FILE, or h5py.File(FILE).visit(print)",
       .fix = "open the file in __getitem__, the first time that each worker needs it; or num_workers=0\n"
              "copy or make the file again\n"
              "HDF5_USE_FILE_LOCKING=FALSE on network disks; read while nobody writes"},
      {.name = "annotations-missing",
       .when = {"annotation file '*not found", "annotation file*does not exist", "annotations file*not found"},
       .refines = {"worker-exception"},
       .what = "the file of annotations is not where the program looks for it",
       .cause = "The data set was not prepared: the annotations are a download or a conversion of their own\n"
                "The path is relative to another directory, misspelt, or the disk is not mounted here",
       .confirm = "ls -l on the path in the message",
       .fix = "make or download the annotations as the project's README has it\n"
              "correct the path, or link the data set to where the configuration looks"},
      {.name = "numpy-pickle",
       .when = {"cannot load file containing pickled data when allow_pickle=false",
                "failed to interpret file*as a pickle", "object arrays cannot be loaded when allow_pickle=false"},
       .what = "a file given to numpy.load holds Python objects, or is no NumPy file at all",
       .cause = "It is a web page, a Git LFS pointer or a cut download in place of the file\n"
                "It holds object arrays (lists of different lengths, dicts), which NumPy loads only if told so\n"
                "It is of another kind: a checkpoint, a text",
       .confirm = "head -c 100 FILE; ls -l FILE",
       .fix = "download it again (git lfs pull)\n"
              "numpy.load(FILE, allow_pickle=True), if its source is trusted\n"
              "the function that belongs to its kind: torch.load, numpy.loadtxt"},
      {.name = "lmdb-missing",
       .when = {"lmdb.error*no such file or directory", "lmdb.invalidparametererror", "lmdb.lockerror"},
       .what = "an LMDB data base cannot be opened",
       .cause = "The path is wrong, or the data set was not converted to LMDB yet\n"
                "It is on a network disk without locks, or read-only without lock=False",
       .confirm = "ls -l on the path: data.mdb and lock.mdb",
       .fix = "make it with the project's script, or correct the path\n"
              "lmdb.open(PATH, readonly=True, lock=False, readahead=False)"},
      {.name = "lmdb-full",
       .when = {"mdb_map_full", "lmdb.mapfullerror"},
       .what = "an LMDB data base has reached the size that it was opened with",
       .cause = "map_size is smaller than what is written: it is a limit, 10 MiB unless given",
       .confirm = "map_size in lmdb.open, against the size of the data",
       .fix = "lmdb.open(PATH, map_size=1 << 40): only what is used takes disk space"},
      {.name = "sqlite-locked",
       .when = {"sqlite3.operationalerror", "database is locked"},
       .what = "a data base in a file (SQLite) is locked, or cannot be opened",
       .cause = "Several processes write to it at once: ranks of one run, several runs of one study or tracker\n"
                "It lies on a network disk whose locks do not work\n"
                "The directory is read-only, or does not exist",
       .confirm = "lsof FILE; which disk is it on?",
       .fix = "a local disk, or a server's data base for several processes\n"
              "one rank alone writes; a longer time-out"},
      {.name = "database-unreachable",
       .when = {"connection refused", "could not connect to server", "connection to server at*failed",
                "could not translate host name", "can't connect to*server on", "serverselectiontimeouterror",
                "error * connecting to *:", "server closed the connection unexpectedly", "lost connection to mysql",
                "mysql server has gone away"},
       .with = {{"psycopg", "pymysql", "mysql", "mysqldb", "pymongo", "redis", "sqlalchemy", "asyncpg", "elasticsearch",
                 "clickhouse"}},
       .outage = true,
       .refines = {"worker-exception", "hub-unreachable"},
       .what = "a database that the run reads or writes cannot be reached",
       .cause = "The server is not running, or listens on another host or port than the address names\n"
                "This machine does not reach it: a compute node or a container without a route, a firewall\n"
                "It ended the connection: too many at once (one for each worker and rank), or idle for too long",
       .confirm = "the host and port in the message, from this very machine: nc -vz HOST PORT",
       .fix =
           "start the server, or correct the address\n"
           "open the connection in __getitem__, the first time that each worker needs it, and again after a failure\n"
           "export the rows to a file once, and train from that"},
      {.name = "csv-empty",
       .when = {"no columns to parse from file", "emptydataerror"},
       .what = "a CSV file is empty",
       .cause = "The step that writes it failed or has not ended, or wrote to another path\n"
                "The download was cut short",
       .confirm = "wc -c FILE; head FILE",
       .fix = "make or copy the file again\n"
              "wait for the process that writes it, on one rank alone"},
      {.name = "split-too-small",
       .when = {"the resulting train set will be empty", "sample larger than population",
                "n_splits=*greater than the number", "the least populated class in y has only 1 member"},
       .refines = {"empty-data"},
       .what = "there are too few samples to be divided or drawn as asked",
       .cause = "The data set is smaller than expected, or empty: a wrong path, or a filter that leaves nothing\n"
                "A class has a single sample, and the split is stratified\n"
                "More samples are drawn than there are",
       .confirm = "len(data), and the count of each class, before that line",
       .fix = "see why samples are missing\n"
              "without stratify, a smaller test_size, or fewer folds\n"
              "min(k, len(data)) samples"},
      {.name = "reduction-of-nothing",
       .when = {"cannot perform reduction function*on a tensor with no elements",
                "zero-size array to reduction operation",
                "expected reduction dim to be specified for input.numel() == 0",
                "attempt to get argmax of an empty sequence"},
       .what = "a maximum or mean was taken of no values",
       .cause = "Nothing was found or left: no boxes, no tokens that count, an empty batch or file\n"
                "A mask or threshold drops everything, perhaps because values are NaN",
       .confirm = "the shape of the tensor in that line, and which sample it comes from",
       .fix = "handle the empty case: return zero, or skip the sample\n"
              "see why nothing is left: thresholds, NaN, labels that are all ignored"},
  };
}

}  // namespace plimsoll::doctor
