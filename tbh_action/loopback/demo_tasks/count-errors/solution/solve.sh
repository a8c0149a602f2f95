#!/bin/bash
set -euo pipefail
cd /app
awk '$9 == 500' access.log | wc -l > errors.txt
