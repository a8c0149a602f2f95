#!/bin/bash
# Makes the task's files; the loopback Hub runs it in place of an image.
set -euo pipefail
cd /app
cat > sales.csv <<'END'
region,product,amount
north,chair,250
east,lamp,120
south,chair,95
north,lamp,160
east,table,200
END
