#!/bin/bash
set -euo pipefail
cd /app
for i in $(seq 1 16); do for b in $(seq 0 255); do printf "\\x$(printf %02x "$b")"; done; done > pattern.bin
sha256sum pattern.bin | cut -c1-64 > sum.txt
