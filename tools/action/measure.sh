#!/usr/bin/env bash
# A step of action.yml: measures, compares with the baseline, and writes the outputs. The exit code is that of the gate.
set -euo pipefail

out="$RUNNER_TEMP/reusebench"
storage="$out/storage"
mkdir -p "$storage"
{
  echo "storage=$storage"
  echo "junit=$out/junit.xml"
} >> "$GITHUB_OUTPUT"

# The words of the arguments, as a shell reads them, without running anything.
mapfile -t words < <(xargs --no-run-if-empty -n 1 printf '%s\n' <<< "$ARGUMENTS")

across=()
[ "${RUNNER_ENVIRONMENT:-}" != github-hosted ] || across+=(--across board)
while read -r condition; do
  [ -z "$condition" ] || across+=(--across "$condition")
done <<< "$ACROSS"

# Runs of the default branch have this name.
main=default-branch
baseline="${BASELINE:-$main}"
[ -n "$BASELINE" ] || compgen -G "$storage/*/*_$main.json" > /dev/null || baseline=""

limits=()
while read -r limit; do
  [ -z "$limit" ] || limits+=(--fail "$limit")
done <<< "$FAIL"

bench=(bench "${words[@]}" --storage "$storage" --junitxml "$out/junit.xml")
is_kept=false
if [ -z "$BASELINE" ] && [ "$IS_DEFAULT_BRANCH" = true ]; then
  # What is merged is accepted: it is compared, and becomes part of the baseline.
  is_kept=true
  bench+=(--benchmark-save "$main")
elif [ -n "$baseline" ]; then
  bench+=(--baseline "$baseline" "${limits[@]}" "${across[@]}")
  [ "$STRICT" != true ] || bench+=(--strict-gate)
fi

code=0
reusebench "${bench[@]}" || code=$?

verdict=no-baseline
# 1: a test or the gate has failed; with other codes nothing was measured.
if [ -n "$baseline" ] && [ "$code" -le 1 ]; then
  verdict=passed
  compare=(compare "$baseline" latest --storage "$storage" "${limits[@]}" "${across[@]}" --format markdown)
  # Comments of several such steps are told apart by the first line. The gate has been judged.
  echo "<!-- reusebench: $NAME -->" > "$out/comment.md"
  reusebench "${compare[@]}" >> "$out/comment.md" || true
  echo "comment=$out/comment.md" >> "$GITHUB_OUTPUT"
  cat "$out/comment.md" >> "$GITHUB_STEP_SUMMARY"
elif [ "$code" -le 1 ]; then
  echo "Nothing to compare with yet: runs of the default branch are kept from now on." >> "$GITHUB_STEP_SUMMARY"
fi
if [ "$code" -le 1 ] && reusebench report --storage "$storage" --run latest --output "$out/report" > /dev/null; then
  echo "report=$out/report" >> "$GITHUB_OUTPUT"
fi
# A run without a layout and its baseline has no badge.
if [ "$code" -le 1 ] && reusebench export --storage "$storage" --format badge-svg --output "$out/memory.svg" 2> /dev/null; then
  echo "badge=$out/memory.svg" >> "$GITHUB_OUTPUT"
fi

[ "$code" = 0 ] || verdict=failed
[ "$code" = 0 ] || is_kept=false
{
  echo "verdict=$verdict"
  echo "keep=$is_kept"
} >> "$GITHUB_OUTPUT"
exit "$code"
