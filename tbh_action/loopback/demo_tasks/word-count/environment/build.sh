#!/bin/bash
# Makes the task's files; the loopback Hub runs it in place of an image.
set -euo pipefail
cd /app
for i in $(seq 1 40); do echo "the quick brown fox number $i"; done > text.txt
