#!/bin/bash
set -euo pipefail
cd /app
wc -w < text.txt > words.txt
