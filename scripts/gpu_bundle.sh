#!/usr/bin/env bash
# Packs what scripts/gpu_check.sh runs on a machine with a GPU, but without network and Debian packages: plimsoll and
# test_gpu as built here, with every library they load, the C library included, into one file below 64 MiB.
#   scripts/gpu_bundle.sh [FILE]      build/gpu_bundle.tar.gz unless said; needs nvcc, and no GPU
# The driver, cuBLAS and NCCL are the other machine's. PLIMSOLL_CUDA_ARCHITECTURES names its GPU (default 90).
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-build/gpu_bundle.tar.gz}
export PLIMSOLL_CUDA_ARCHITECTURES=${PLIMSOLL_CUDA_ARCHITECTURES:-90}
scripts/build.sh release --target plimsoll test_gpu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/programs" "$folder/lib" "$folder/system" "$folder/fonts"
for program in build/release/plimsoll build/release/test/gpu/test_gpu; do
  name=$(basename "$program")
  strip -o "$folder/programs/$name" "$program"
  cat >"$folder/bin/$name" <<'WRAPPER'
#!/bin/sh
# Uses the machine's own C library if it is as new as the one of the build, else the one beside this script.
here=$(cd "$(dirname "$0")/.." && pwd)
program=$here/programs/$(basename "$0")
export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-2000}"  # otherwise plimsoll would restart itself to set it
export FONTCONFIG_FILE="${FONTCONFIG_FILE:-$here/fonts.conf}"
if LD_LIBRARY_PATH="$here/lib" "$here/programs/plimsoll" --version >/dev/null 2>&1; then
  LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$program" "$@"
fi
exec "$here"/system/ld-linux-* --library-path "$here/lib:$here/system${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$program" "$@"
WRAPPER
  chmod +x "$folder/bin/$name"
  { ldd "$program" || { echo "error: ldd cannot read $program" >&2; exit 5; }; } | grep -o '/[^ ]*' | while read -r library; do
    case "$(basename "$library")" in
      ld-linux-* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.*) cp -L "$library" "$folder/system/" ;;
      *) cp -L "$library" "$folder/lib/" ;;
    esac
  done
done
# The fonts of drawn receipts.
cat >"$folder/fonts.conf" <<'FONTS'
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
FONTS
for font in DejaVuSans DejaVuSerif DejaVuSansMono; do
  cp /usr/share/fonts/truetype/dejavu/$font.ttf /usr/share/fonts/truetype/dejavu/$font-Bold.ttf "$folder/fonts/"
done
cp /usr/share/fonts/truetype/liberation/Liberation{Sans,Serif,Mono}-{Regular,Bold}.ttf "$folder/fonts/"
# The driver's and cuBLAS's libraries ask for these parts of the C library by name.
libc=$(ldd build/release/plimsoll | grep -o '/[^ ]*/libc\.so\.6')
for part in libdl.so.2 libpthread.so.0 librt.so.1; do cp -L "$(dirname "$libc")/$part" "$folder/system/"; done
mkdir -p "$(dirname "$file")"
tar -czf "$file" -C "$folder" bin programs lib system fonts fonts.conf
bytes=$(stat -c %s "$file")
unpacked=$(du -sb "$folder" | cut -f 1)
echo "$file: $((bytes >> 20)) MiB, $((unpacked >> 20)) MiB unpacked"
if [ "$bytes" -ge $((64 << 20)) ]; then echo "error: $file is above 64 MiB" >&2; exit 5; fi
