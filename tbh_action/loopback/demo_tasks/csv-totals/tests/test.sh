#!/bin/bash
# Exit status of check → reward.
mkdir -p /logs/verifier
check() {
  diff <(printf '%s\n' region,total east,320 north,410 south,95) /app/totals.csv
}
if check; then
  echo "PASSED"
  echo 1 > /logs/verifier/reward.txt
else
  echo "FAILED"
  echo 0 > /logs/verifier/reward.txt
fi
