#!/bin/bash
# Exit status of check → reward.
mkdir -p /logs/verifier
check() {
  cd /app/site || return 1
  [ "$(git rev-parse --abbrev-ref HEAD)" = main ] &&
    git log --format=%s main | grep -qx "Add the contact page" &&
    grep -q "Tower Street 7" contact.html
}
if check; then
  echo "PASSED"
  echo 1 > /logs/verifier/reward.txt
else
  echo "FAILED"
  echo 0 > /logs/verifier/reward.txt
fi
