#!/usr/bin/env bash
# Tries a wheel in a bare Debian, without a compiler and without any package but Python: scripts/check_wheel.sh WHEEL
# Prints how long it takes from `pip install` to the end of the demo's short form.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=${1:?"usage: scripts/check_wheel.sh WHEEL"}
most_seconds=60
root=$PWD/build/wheel/root
source scripts/packages.sh
if [ "$(id -u)" -ne 0 ]; then echo "bare root: SKIPPED, making one needs root"; exit 0; fi
mapfile -t missing < <(missing_packages debootstrap)
if [ "${#missing[@]}" -gt 0 ]; then install_packages "${missing[@]}" >/dev/null; fi
if [ ! -x "$root/usr/bin/python3" ]; then
  echo "bare root: debootstrap"
  rm -rf "$root"
  mirror=$(sed -n 's/^URIs: *\(http[^ ]*debian\)$/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1)
  debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" "${mirror:-http://deb.debian.org/debian}" \
    >"$root.log" 2>&1 || { tail -n 5 "$root.log"; echo "bare root: SKIPPED, debootstrap failed"; exit 0; }
fi
rm -rf "$root/try"
mkdir -p "$root/try"
cp "$wheel" "$root/try/"
[ -d "$root/proc/1" ] || mount -t proc proc "$root/proc"
trap 'umount "$root/proc" 2>/dev/null || true' EXIT
chroot=$(PATH=$PATH:/usr/sbin:/sbin command -v chroot)
in_root() { env -i PATH=/try/venv/bin:/usr/bin:/bin HOME=/root LANG=C.UTF-8 "$chroot" "$root" sh -ec "cd /try; $1"; }
for tool in cc g++ fc-list tesseract; do
  if [ -x "$root/usr/bin/$tool" ]; then echo "error: the bare root has $tool" >&2; exit 1; fi
done
in_root "python3 -m venv --system-site-packages venv"
begin=$(date +%s%N)
in_root "pip install --quiet --no-index /try/*.whl"
in_root "plimsoll --version"
in_root "plimsoll demo --short --output-dir first > first.log 2>&1" || { cat "$root/try/first.log"; exit 1; }
end=$(date +%s%N)
seconds=$(((end - begin) / 1000000000))
tail -n 7 "$root/try/first.log"
echo "bare root: from pip install to a trained model and its drawn pages $seconds s (allowed to the first update: $most_seconds s)"
in_root "plimsoll ocr --input first/pages/images --output read.jsonl --images read --language eng" | tail -n 2
in_root "python3 -c 'import plimsoll; print(plimsoll.plan(model=\"layoutlmv3-tiny\", data=\"first/pages/train.jsonl\").predicted_peak_bytes > 0)'"
if [ "$seconds" -gt "$most_seconds" ]; then echo "error: too slow" >&2; exit 1; fi
