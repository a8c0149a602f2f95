#!/bin/bash
# Makes the task's files; the loopback Hub runs it in place of an image.
set -euo pipefail
cd /app
printf '%s\n' one two three > original.txt
