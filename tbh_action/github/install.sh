#!/usr/bin/env bash
# Makes the action's own virtual environment from the lock, and checks git-lfs.
#
# The caller's environment is not touched: the environment lies in RUNNER_TEMP (or in
# TBH_ACTION_VENV, for self-hosted runners that keep it), one for each lock file, and is used again
# by later steps. Every package is checked against its hash. Writes `python` to the step's outputs.
set -euo pipefail
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
lock=$root/requirements.lock
stamp=$(cksum <"$lock")
venv=${TBH_ACTION_VENV:-$RUNNER_TEMP/tbh-action-${stamp%% *}}
python=$venv/bin/python

if [[ ! -x $python || ! -f $venv/.tbh-action || $(<"$venv/.tbh-action") != "$stamp" ]]; then
  echo "::group::Install tbh into $venv"
  "$TBH_PYTHON" -I -m venv --clear "$venv"
  # Compiled: without bytecode Harbor starts three times slower.
  if command -v uv >/dev/null 2>&1; then
    uv pip install --python "$python" --require-hashes --compile-bytecode -r "$lock"
  else
    "$python" -I -m pip --disable-pip-version-check install --quiet --require-hashes \
      --compile -r "$lock"
  fi
  printf '%s' "$stamp" >"$venv/.tbh-action"
  echo "::endgroup::"
fi

if ! git lfs version >/dev/null 2>&1; then
  echo "git-lfs is missing; tasks hold files that need it."
  sudo=()
  [[ $(id -u) == 0 ]] || sudo=(sudo -n)
  if ! { command -v apt-get && "${sudo[@]}" apt-get update -q &&
    "${sudo[@]}" apt-get install -y -q --no-install-recommends git-lfs; } >/dev/null; then
    echo "::error title=git-lfs is missing::Install it on this runner: https://git-lfs.com"
    exit 3
  fi
fi

# The package itself is used where it lies (PYTHONPATH): nothing is built, so no build tool is fetched,
# and two versions can share one environment.
printf 'python=%s\nroot=%s\n' "$python" "$root" >>"$GITHUB_OUTPUT"
