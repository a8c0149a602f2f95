#!/bin/bash
# Exit status of check → reward.
mkdir -p /logs/verifier
check() {
  [ "$(grep -c -E -f /app/pattern.txt /app/lines.txt)" = 3 ] &&
    ! grep -E -f /app/pattern.txt /app/lines.txt | grep -q bad
}
if check; then
  echo "PASSED"
  echo 1 > /logs/verifier/reward.txt
else
  echo "FAILED"
  echo 0 > /logs/verifier/reward.txt
fi
