#!/bin/sh
# tools/install.sh VENV EXTRAS: installs this checkout with these extras into the environment VENV, which $PYTHON makes if
# it is missing. uv installs if it is there ($UV names it), several times as fast as pip. Each download is a line.
set -eu

venv=$1
extras=$2
python=${PYTHON:-python3}
uv=${UV:-uv}
# Measured on x86-64 with Python 3.11; wheels for aarch64 are of the same size.
case $extras in
  all,dev,docs,runtimes,ort-genai,openvino-genai) packages=135 download="390 MB" disk="1.6 GB" ;;
  all,llm) packages=53 download="240 MB" disk="900 MB" ;;
  all,dev) packages=95 download="220 MB" disk="950 MB" ;;
  all,runtimes) packages=48 download="230 MB" disk="900 MB" ;;
  all,docs) packages=62 download="180 MB" disk="650 MB" ;;
  *) packages=35 download="125 MB" disk="500 MB" ;;
esac

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; }
has_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }
has_uv() { command -v "$uv" >/dev/null; }

if ! is_recent "$python" || ! { has_uv || has_venv "$python"; }; then
  echo "make: $python is no Python 3.9 or later with venv. Install one (Debian: apt install python3 python3-venv)" \
    "or name one: make install PYTHON=python3.11" >&2
  exit 2
fi

echo "Installing reusebench [$extras] into $venv, once: some $packages packages, $download to download, $disk on disk."
begin=$(date +%s)
if has_uv; then
  [ -x "$venv/bin/python" ] || "$uv" venv --quiet --seed --python "$python" "$venv"
  "$uv" pip install --python "$venv/bin/python" --editable ".[$extras]"
else
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  pip() { "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@"; }
  # It is the first that installs a checkout without a setup.py.
  "$venv/bin/python" -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (21, 3))' ||
    pip --quiet 'pip>=21.3'
  { pip --editable ".[$extras]" || echo FAILED; } | awk -v packages="$packages" '
    $1 == "Downloading" || $1 == "Using" || $1 == "Processing" {
      name = $1 == "Using" ? $3 : $2
      sub(/.*\//, "", name)
      sub(/-(cp|py)[0-9].*/, "", name)
      size = match($0, /\([0-9.]+ [kMG]?B\)/) ? substr($0, RSTART + 1, RLENGTH - 2) : ""
      printf "%4d of some %d  %-32s %s\n", ++files, packages, name, size
      fflush()
    }
    $1 == "Installing" && $2 == "collected" { print "     unpacking them"; fflush() }
    $1 == "FAILED" { failed = 1 }
    END { exit failed }'
fi
echo "Installed in $(($(date +%s) - begin)) s, $(du -sh "$venv" | cut -f 1). The next run starts at once."
