#!/bin/bash
# Exit status of check → reward.
mkdir -p /logs/verifier
check() {
  diff <(tac /app/original.txt) /app/mirror.txt
}
if check; then
  echo "PASSED"
  echo 1 > /logs/verifier/reward.txt
else
  echo "FAILED"
  echo 0 > /logs/verifier/reward.txt
fi
