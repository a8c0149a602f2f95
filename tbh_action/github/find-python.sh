#!/usr/bin/env bash
# Finds a Python that can run tbh, so that setup-python is only used where there is none.
# Writes `found` (true or false) and `path` to the step's outputs.
set -euo pipefail

for candidate in python3.12 python3.13 python3.14 python3 python; do
  path=$(command -v "$candidate") || continue
  # -I: nothing of the caller's own Python settings counts.
  if "$path" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null
  then
    echo "Python for tbh: $path"
    printf 'found=true\npath=%s\n' "$path" >>"$GITHUB_OUTPUT"
    exit 0
  fi
done
echo "No Python 3.12 or newer with venv on this runner; setup-python brings one."
echo "found=false" >>"$GITHUB_OUTPUT"
