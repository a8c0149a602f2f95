#!/bin/bash
# Exit status of check → reward.
mkdir -p /logs/verifier
check() {
  [ "$(tr -d ' \n' < /app/answer.txt)" = 42 ]
}
if check; then
  echo "PASSED"
  echo 1 > /logs/verifier/reward.txt
else
  echo "FAILED"
  echo 0 > /logs/verifier/reward.txt
fi
