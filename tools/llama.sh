#!/bin/sh
# tools/llama.sh VENV: installs llama.cpp's package for Python into the environment VENV. It has no wheels: the pinned source
# is built once (6 minutes on two cores), into a wheel in the user's cache. The wheel is for the processor of this machine.
set -eu

venv=$1
here=$(cd "$(dirname "$0")" && pwd)
key=$(cat "$here/llama.txt" "$here/llama_build.txt" | cksum | cut -d ' ' -f 1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reusebench/llama-cpp-python/$key-$(uname -m)
pip() {
  command=$1
  shift
  "$venv/bin/python" -m pip "$command" --disable-pip-version-check --quiet "$@"
}

if ! ls "$cache"/*.whl >/dev/null 2>&1; then
  for program in cc c++; do
    command -v $program >/dev/null || {
      echo "llama.cpp is built from source, and there is no $program (Debian: apt install build-essential)" >&2
      exit 2
    }
  done
  echo "Building llama.cpp into $cache, once: some 6 minutes on two cores."
  mkdir -p "$cache"
  temporary=$(mktemp -d "$cache/building.XXXXXX")
  trap 'rm -rf "$temporary"' EXIT
  # Without its tools for pictures, the build takes half of the time.
  CMAKE_ARGS="-DLLAVA_BUILD=OFF ${CMAKE_ARGS:-}" PIP_CONSTRAINT="$here/llama_build.txt" \
    pip wheel --no-deps --require-hashes --no-binary llama-cpp-python --wheel-dir "$temporary" -r "$here/llama.txt"
  mv "$temporary"/*.whl "$cache"
fi
pip install "$cache"/*.whl
