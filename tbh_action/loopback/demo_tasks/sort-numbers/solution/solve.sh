#!/bin/bash
set -euo pipefail
cd /app
sort -nu numbers.txt > sorted.txt
