#!/bin/bash
# Makes the task's files; the loopback Hub runs it in place of an image.
set -euo pipefail
cd /app
cat > lines.txt <<'END'
good 2026-01-31
good 1999-12-01 in a sentence
bad 2026-13-01
bad 2026-00-10
bad 2026-10-32
good at the end 2024-02-29
bad 12026-01-01
END
