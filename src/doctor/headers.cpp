#include "doctor/headers.h"

#include <algorithm>

namespace plimsoll::doctor {
namespace {

// A header's name, or the directory that it is in.
struct Header {
  std::string_view name, source;
};
constexpr std::string_view kToolkit =
    "the whole CUDA toolkit of torch.version.cuda, not only its compiler and runtime: apt-get install "
    "cuda-toolkit-12-X, "
    "conda install -c nvidia cuda-toolkit, a -devel image of Docker; then CUDA_HOME";
constexpr Header kHeaders[] = {
    {"cuda_profiler_api.h",
     "the profiler's headers of the CUDA toolkit: apt-get install cuda-profiler-api-12-X (cuda-nvprof-dev before CUDA "
     "12), conda install -c nvidia cuda-profiler-api; or the whole toolkit"},
    {"cusparse", "apt-get install libcusparse-dev-12-X, conda install -c nvidia libcusparse-dev; or the whole toolkit"},
    {"cublas", "apt-get install libcublas-dev-12-X, conda install -c nvidia libcublas-dev; or the whole toolkit"},
    {"cusolver", "apt-get install libcusolver-dev-12-X, conda install -c nvidia libcusolver-dev; or the whole toolkit"},
    {"curand", "apt-get install libcurand-dev-12-X, conda install -c nvidia libcurand-dev; or the whole toolkit"},
    {"cufft", "apt-get install libcufft-dev-12-X, conda install -c nvidia libcufft-dev; or the whole toolkit"},
    {"nvtoolsext.h", "apt-get install cuda-nvtx-12-X, conda install -c nvidia cuda-nvtx; or the whole toolkit"},
    {"nvtx3", "apt-get install cuda-nvtx-12-X, conda install -c nvidia cuda-nvtx; or the whole toolkit"},
    {"nvml.h", "apt-get install cuda-nvml-dev-12-X, conda install -c nvidia cuda-nvml-dev; or the whole toolkit"},
    {"nvrtc.h", "apt-get install cuda-nvrtc-dev-12-X, conda install -c nvidia cuda-nvrtc-dev; or the whole toolkit"},
    {"cudnn",
     "cuDNN's development files: apt-get install libcudnn9-dev-cuda-12 (libcudnn8-dev), pip install "
     "nvidia-cudnn-cu12 with CPATH=its include directory"},
    {"nccl.h", "apt-get install libnccl-dev, conda install -c conda-forge nccl"},
    {"nvinfer", "TensorRT's development files: apt-get install libnvinfer-dev"},
    {"nppi", kToolkit},
    {"cuda", kToolkit},
    {"crt/", kToolkit},
    {"device_launch_parameters.h", kToolkit},
    {"driver_types.h", kToolkit},
    {"thrust/", kToolkit},
    {"cub/", kToolkit},
    {"cutlass/", "git submodule update --init --recursive in the source: CUTLASS is a submodule of it"},
    {"cute/", "git submodule update --init --recursive in the source: CUTLASS is a submodule of it"},
    {"thc/", "a version of the extension for the PyTorch that is installed: PyTorch 1.11 took THC's headers out"},
    {"torch/", "torch itself, where the package is built: pip install --no-build-isolation, after pip install torch"},
    {"aten/", "torch itself, where the package is built: pip install --no-build-isolation, after pip install torch"},
    {"c10/", "torch itself, where the package is built: pip install --no-build-isolation, after pip install torch"},
    {"pybind11/", "pip install \"pybind11[global]\", or git submodule update --init --recursive in the source"},
    {"numpy/",
     "pip install numpy, and pip install --no-build-isolation for the package: CPATH=$(python -c 'import "
     "numpy; print(numpy.get_include())')"},
    {"mpi.h", "apt-get install libopenmpi-dev openmpi-bin, conda install -c conda-forge mpi4py"},
    {"libaio.h", "apt-get install libaio-dev, conda install -c conda-forge libaio"},
    {"numa.h", "apt-get install libnuma-dev"},
    {"infiniband/", "apt-get install libibverbs-dev"},
    {"cblas.h", "apt-get install libopenblas-dev"},
    {"lapacke.h", "apt-get install liblapacke-dev"},
    {"mkl", "pip install mkl-include (conda install mkl-include)"},
    {"eigen", "apt-get install libeigen3-dev, and CPATH=/usr/include/eigen3"},
    {"unsupported/eigen", "apt-get install libeigen3-dev, and CPATH=/usr/include/eigen3"},
    {"boost/", "apt-get install libboost-all-dev"},
    {"opencv2/", "apt-get install libopencv-dev"},
    {"glog/", "apt-get install libgoogle-glog-dev"},
    {"gflags/", "apt-get install libgflags-dev"},
    {"google/protobuf/", "apt-get install libprotobuf-dev protobuf-compiler"},
    {"hdf5.h", "apt-get install libhdf5-dev"},
    {"lmdb.h", "apt-get install liblmdb-dev"},
    {"leveldb/", "apt-get install libleveldb-dev"},
    {"snappy", "apt-get install libsnappy-dev"},
    {"sndfile.h", "apt-get install libsndfile1-dev"},
    {"portaudio.h", "apt-get install portaudio19-dev"},
    {"alsa/", "apt-get install libasound2-dev"},
    {"sox.h", "apt-get install libsox-dev"},
    {"libavcodec/", "apt-get install libavcodec-dev libavformat-dev libavdevice-dev libavfilter-dev libswscale-dev"},
    {"libavformat/", "apt-get install libavcodec-dev libavformat-dev libavdevice-dev libavfilter-dev libswscale-dev"},
    {"jpeglib.h", "apt-get install libjpeg-dev"},
    {"turbojpeg.h", "apt-get install libturbojpeg0-dev"},
    {"png.h", "apt-get install libpng-dev"},
    {"tiff", "apt-get install libtiff-dev"},
    {"zlib.h", "apt-get install zlib1g-dev"},
    {"bzlib.h", "apt-get install libbz2-dev"},
    {"lzma.h", "apt-get install liblzma-dev"},
    {"zstd.h", "apt-get install libzstd-dev"},
    {"ffi.h", "apt-get install libffi-dev"},
    {"openssl/", "apt-get install libssl-dev"},
    {"curl/", "apt-get install libcurl4-openssl-dev"},
    {"sqlite3.h", "apt-get install libsqlite3-dev"},
    {"libpq-fe.h", "apt-get install libpq-dev"},
    {"mysql.h", "apt-get install libmysqlclient-dev"},
    {"libxml/", "apt-get install libxml2-dev libxslt1-dev"},
    {"leptonica/", "apt-get install libleptonica-dev"},
    {"tesseract/", "apt-get install libtesseract-dev libleptonica-dev"},
    {"poppler/", "apt-get install libpoppler-cpp-dev"},
    {"x11/", "apt-get install libx11-dev"},
    {"gl/glew.h", "apt-get install libglew-dev"},
    {"gl/osmesa.h", "apt-get install libosmesa6-dev"},
    {"gl/", "apt-get install libgl1-mesa-dev"},
    {"egl/", "apt-get install libegl1-mesa-dev"},
    {"gles2/", "apt-get install libgles2-mesa-dev"},
    {"gdal", "apt-get install libgdal-dev"},
    {"geos_c.h", "apt-get install libgeos-dev"},
    {"gmp.h", "apt-get install libgmp-dev"},
    {"spatialindex/", "apt-get install libspatialindex-dev"},
    {"crypt.h", "apt-get install libcrypt-dev"},
    {"uuid/", "apt-get install uuid-dev"},
    {"ncurses.h", "apt-get install libncurses-dev"},
    {"readline/", "apt-get install libreadline-dev"},
    {"omp.h", "libomp: apt-get install libomp-dev (brew install libomp on a Mac), or gcc instead of clang"},
    {"hip/", "the development files of ROCm: apt-get install rocm-dev, and ROCM_HOME"},
    {"stdio.h", "the C library's headers: apt-get install build-essential (xcode-select --install on a Mac)"},
    {"stdlib.h", "the C library's headers: apt-get install build-essential (xcode-select --install on a Mac)"},
    {"limits.h", "the C library's headers: apt-get install build-essential (linux-headers and musl-dev on Alpine)"},
    {"linux/", "the kernel's headers: apt-get install linux-libc-dev (linux-headers on Alpine)"}};

}  // namespace

std::string_view source_of_header(std::string_view small) {
  for (const std::string_view words : {"fatal error: ", "cannot open include file: ", "cannot open source file "}) {
    const std::size_t at = small.find(words);
    if (at == std::string_view::npos) continue;
    std::string_view name = small.substr(at + words.size());
    name.remove_prefix(std::min(name.find_first_not_of("'\"<"), name.size()));
    // "c1083: cannot open include file: …" comes after "fatal error".
    if (name.starts_with("c1083")) continue;
    for (const Header& header : kHeaders)
      if (name.starts_with(header.name)) return header.source;
  }
  return {};
}

}  // namespace plimsoll::doctor
