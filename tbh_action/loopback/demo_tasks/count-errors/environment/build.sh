#!/bin/bash
# Makes the task's files; the loopback Hub runs it in place of an image.
set -euo pipefail
cd /app
for i in $(seq 1 400); do
  status=200
  [ $((i % 29)) -eq 0 ] && status=404
  [ $((i % 11)) -eq 3 ] && status=500
  echo "10.0.0.$((i % 250)) - - [05/Jan/2026:10:$((i / 60 % 60)):$((i % 60)) +0000] \"GET /page/$i HTTP/1.1\" $status $((i * 13))"
done > access.log
