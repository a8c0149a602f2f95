#!/bin/bash
# Exit status of check → reward.
mkdir -p /logs/verifier
check() {
  diff <(printf '%s\n' -4 2 7 10 33 100) /app/sorted.txt
}
if check; then
  echo "PASSED"
  echo 1 > /logs/verifier/reward.txt
else
  echo "FAILED"
  echo 0 > /logs/verifier/reward.txt
fi
