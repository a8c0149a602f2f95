#!/usr/bin/env bash
# The results store on a branch: `store.sh fetch BRANCH DIR`, `store.sh push BRANCH DIR MESSAGE`.
#
# GITHUB_TOKEN reaches git through its environment, never through argv or a file.
set -euo pipefail

command=$1 branch=$2 folder=$3
address=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY

if [[ -n ${GITHUB_TOKEN:-} ]]; then
  number=${GIT_CONFIG_COUNT:-0}
  header=$(printf 'x-access-token:%s' "$GITHUB_TOKEN" | base64 | tr -d '\n')
  echo "::add-mask::$header"
  export "GIT_CONFIG_KEY_$number=http.$GITHUB_SERVER_URL/.extraheader"
  export "GIT_CONFIG_VALUE_$number=AUTHORIZATION: basic $header"
  export GIT_CONFIG_COUNT=$((number + 1))
fi

case $command in
fetch)
  if git ls-remote --exit-code --heads "$address" "$branch" >/dev/null; then
    git clone --quiet --depth 1 --single-branch --branch "$branch" "$address" "$folder"
  else # 2: the branch is not there yet; anything else is a failure
    [[ $? == 2 ]] || exit 3
    echo "There is no branch $branch yet; it begins with this run."
    git init --quiet --initial-branch "$branch" "$folder"
  fi
  ;;
push)
  cd "$folder"
  git add --all
  if git diff --cached --quiet; then
    echo "Nothing new for $branch."
    exit 0
  fi
  git -c user.name='github-actions[bot]' \
    -c user.email='41898282+github-actions[bot]@users.noreply.github.com' \
    commit --quiet --message "$4"
  for _ in 1 2 3; do
    git push --quiet "$address" "HEAD:refs/heads/$branch" && exit 0
    git pull --quiet --rebase "$address" "$branch"
  done
  exit 1
  ;;
esac
